"""The Docker engine is gone in the middle of a command: one error, what was recorded is kept, and nothing is left."""

import functools
import json
import tempfile
from pathlib import Path

import pytest
from replication_lab.world import journal, lab_files
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import labels, leftovers

from tests.browser.forwarder import SocketForwarder
from tests.lab.conftest import labs_of, read_until

SECONDS = 120
ENGINE = "/var/run/docker.sock"
# A command, and what it prints or does when its way to the engine is cut.
RECORDED = {
    "run": (["run", "semisync_wan"], "round 1 of"),
    "drill": (["drill", "single", "--drill", "kill"], "kill on server: verified"),
    "ask": (["ask", "single", "--vary", "sync_binlog=0,1"], "round 1 of"),
}


@pytest.fixture
def way():
    """Yield a way to the engine that can be cut; the path of a socket must be short."""
    with tempfile.TemporaryDirectory() as folder, SocketForwarder(Path(folder) / "engine", ENGINE) as found:
        yield found


@pytest.fixture
def start(way, start_command):
    """Start `lab …` on that way."""
    return functools.partial(start_command, DOCKER_HOST=way.address)


def ended(process):
    """Return how a command ended: its status, and what else it printed."""
    said = process.stdout.read()
    return process.wait(SECONDS), said


def is_one_error(said):
    return said.count("error:") == 1 and "the Docker engine does not answer any more" in said and "Trace" not in said


# `latest` is the newest run of any test.
@pytest.mark.alone
@pytest.mark.parametrize(
    "words", ["run", *(pytest.param(name, marks=pytest.mark.long) for name in RECORDED if name != "run")]
)
def test_a_run_without_its_engine_is_recorded_and_swept_later(way, start, command, words):
    """Cut while it measures, for good: status 3, a record that says why, verdicts UNKNOWN; then nothing is left."""
    asked, moment = RECORDED[words]
    process = start(*asked)
    read_until(process, moment)
    made = labs_of(process)
    way.close()

    status, said = ended(process)
    folder = Path(journal.record_file("latest")).parent.resolve()
    judged = command("report", folder.name, "--json")
    command("down", "--lab", "no-such-lab")

    assert status == 2 and is_one_error(said), said
    assert "the Docker engine does not answer any more" in (journal.read(folder)[1].crashed or "")
    assert words != "drill" or journal.read(folder)[1].evidence["kill"].doubts, "what clients saw is judged as well"
    summary = json.loads(judged.stdout)
    assert summary["verdict"] in ("CRASHED", "UNKNOWN") and judged.returncode == 2
    assert {path.name for path in folder.iterdir()} >= {"record.jsonl", "summary.json", "report.html"}
    assert made and not made & {*leftovers.left_behind(), *labels.owners()}
    assert [path.name for name in made for path in lab_files.FOLDER.glob(f"{name}*")] == []


def test_a_start_without_its_engine_is_one_error(way, start, command, name):
    """Cut while containers come up, as `docker compose` notices as well; the next command removes them."""
    process = start("up", "semisync", "--lab", name)
    wait_until(lambda: labs_of(process), "the first container")
    way.close()

    status, said = ended(process)
    command("down", "--lab", "no-such-lab")

    assert status == 2 and is_one_error(said), said
    assert name not in labels.owners()
    assert list(lab_files.FOLDER.glob(f"{name}*")) == []


def test_a_start_whose_engine_comes_back_leaves_nothing_or_a_whole_lab(way, start, command, name):
    """As when it restarts and keeps the containers: one error, and the command itself removes its lab.

    What the engine was still making for `docker compose` may come later; the next command removes it. If no request was
    under way at that moment, the start notices nothing.
    """
    process = start("up", "semisync", "--lab", name)
    wait_until(lambda: labs_of(process), "the first container")
    way.close()
    way.open()

    status, said = ended(process)
    if status == 0:
        assert f"{name} is up." in said
        assert command("down", "--lab", name).returncode == 0

    assert status == 0 or (status == 2 and said.count("error:") == 1 and "Trace" not in said), said
    command("down", "--lab", "no-such-lab")
    assert name not in labels.owners()
