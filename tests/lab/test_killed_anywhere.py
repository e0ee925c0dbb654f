"""SIGKILL at any moment of any command: the next command removes its leftovers, and touches no other lab."""

import random
import subprocess
from pathlib import Path

import psutil
import pytest
from replication_lab.world import catalogue, clock, signals
from replication_lab.world.docker import leftovers, project

from tests.lab.conftest import things_of

# The whole machine is compared before and after.
pytestmark = pytest.mark.alone

SEED, MOMENTS = 7, 30
# A command, and how many seconds it takes at the least: what is struck later has ended by itself.
COMMANDS = [
    (["up", "async", "--toxic", "source-replica=lan", "--lab"], 6),
    (["up", "async", "--toxic", "source-replica=lan", "--storage", "raid0", "--disk-size", "1024", "--lab"], 12),
    (["drill", "single", "--drill", "kill", "--duration", "1"], 12),
    (["down", "--yes", "--lab"], 2),
    (["run", "semisync_wan"], 15),
    (["soak", "--topology", "single", "--duration", "1min"], 20),
]
# `down` once: starts and runs are killed in test_bad_luck.py, and a start with disks in test_storage.py. Then each
# command again and again, at other moments.
ONCE = (3,)
LATER = [pytest.param(number, marks=pytest.mark.long) for number in range(MOMENTS) if number not in ONCE]
ENGINES = ("/var/lib/docker", "/run/docker", "/var/run/docker")
LEFT_OUT = {"runs", ".git", ".venv", "__pycache__", ".pytest_cache", ".ruff_cache", ".import_linter_cache"}


def moment(number):
    """Return the command that is killed, and after how many seconds, by the seed."""
    words, most = COMMANDS[number % len(COMMANDS)]
    return words, round(random.Random(f"{SEED}:{number}").uniform(0.2, most), 2)


def of_the_host():
    """Return what is left outside containers: loop devices, mounts, and files of the checkout outside runs/."""
    loops = subprocess.run(["losetup", "--list", "--noheadings"], capture_output=True, text=True, check=False).stdout
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    # The engine's own mounts are those of any containers, which are found by their labels.
    mounts = {mount for mount in mounts if not mount.startswith(ENGINES)}
    root = catalogue.ROOT
    files = {path for path in root.rglob("*") if not LEFT_OUT & set(path.relative_to(root).parts)}
    return loops, mounts, files


def composes_of(name):
    """Return the orphaned `docker compose` processes, which live on for a moment."""
    lines = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    return [line for line in lines if name in line and "compose" in line]


@pytest.fixture(scope="module")
def bystander(new_lab):
    """Yield a lab of another command, with toxics on its link."""
    lab = new_lab("semisync")
    before = (lab.link("source-replica").toxics(), of_the_host())
    yield lab
    after = (lab.link("source-replica").toxics(), of_the_host())
    with signals.signals_held():
        lab.down()
    assert after == before


@pytest.mark.parametrize("number", [*ONCE, *LATER])
def test_a_command_killed_at_any_moment_leaves_nothing(bystander, start_command, command, number):
    """30 moments of five commands (`up` with disks, too); the next command that starts any removes the rest."""
    words, seconds = moment(number)
    name = f"test-killed-{number}"
    if words[0] == "down":
        assert command("up", "async", "--lab", name, "--toxic", "source-replica=lan").returncode == 0
    process = start_command(*words, *([name] if words[0] in ("up", "down") else []))
    clock.pause(seconds)
    process.kill()
    process.wait()
    clock.wait_until(lambda: not composes_of(name), "the end of an orphaned docker compose")

    # An `up` that had ended by then is a lab that is meant to stay.
    command("down", "--lab", name)

    assert things_of(name) == []
    assert [left for left in leftovers.left_behind() if left == name] == []
    assert [path.name for path in (catalogue.RUNS / "labs").glob(f"{name}*")] == []


def test_what_runs_and_drills_of_their_own_left_is_gone_too(bystander, command):
    """After all of the above, by `lab clean`; the bystander lives."""
    assert command("clean", bystander.name).returncode == 0

    assert leftovers.left_behind() == []
    assert [name for name in project.all_labs() if name.startswith("test-killed")] == []
    assert bystander.node("source").server().version()
