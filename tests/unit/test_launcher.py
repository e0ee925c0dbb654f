"""Does the launcher make the Python environment, once and whole, and ask before it installs anything?"""

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections import defaultdict

import psutil
import pytest
from replication_lab.world import catalogue

from tests.terminal import typed_at_a_terminal


@pytest.fixture
def bare(tmp_path):
    """Return a checkout of nothing but the launcher, and programs that record how they are called, before others."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "compose").mkdir()
    (tmp_path / "harness" / "requirements.txt").touch()
    (tmp_path / "lab").write_text((catalogue.ROOT / "lab").read_text().replace("/var/lib", str(tmp_path)))
    programs = tmp_path / "bin"
    programs.mkdir()
    log = tmp_path / "log"
    # A Python that is new enough and cannot make environments: python3-venv is missing.
    for name, body in (
        (
            "python",
            "case $2 in *version_info*) exit 0 ;; *) exit 1 ;; esac",
        ),
        ("apt-get", 'echo "apt-get $*" >>"$LOG"'),
        ("sudo", 'exec "$@"'),
        ("dpkg-query", "exit 1"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    log.touch()
    return tmp_path, {"PATH": path, "LOG": str(log), "LAB_PYTHON": str(programs / "python")}


@pytest.mark.parametrize(("keys", "goes_on"), [(b"\n", True), (b"no\n", False), (b"\x04", False)])
def test_the_launcher_asks_a_terminal_too(bare, keys, goes_on):
    """It installs Python's venv by apt after Enter, and records it; otherwise nothing is run."""
    folder, environment = bare
    asked, _ = typed_at_a_terminal(["sh", str(folder / "lab"), "up"], keys, **environment)
    ran = (folder / "log").read_text()
    record = folder / "replication-lab" / "added"

    assert "install  python3-venv" in asked
    assert ("apt-get install -y -q --no-install-recommends python3-venv" in ran) == goes_on
    assert (record.read_text() if record.exists() else "") == ("package python3-venv\n" if goes_on else "")


# A Python for the launcher: it makes an environment of nothing but itself, and its pip installs a uv that is no better.
MAKES_ENVIRONMENTS = """#!/bin/sh
case "$*" in
  */environment.py*) exec "$REAL" -c 'import os, runpy, sys
sys.executable, sys.argv = os.environ["LAB_PYTHON"], sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")' "$@" ;;
  "-m venv "*) "$REAL" -m venv --without-pip "$4" && rm -f "$4/bin/python" && cp "$0" "$4/bin/python" ;;
  *run_module*" config list") printf "%s\\n" "global.index-url='simple/of/a/company'" ;;
  *run_module*" install "*)
    [ ! -e "$FAILS" ] || exit 1
    echo pip >>"$LOG"
    [ ! -p "$BEGUN" ] || { echo begun >"$BEGUN"; read -r _ <"$GO_ON"; }
    printf '#!/bin/sh\\necho "uv $UV_DEFAULT_INDEX" >>"$LOG"\\n' >"${0%python}uv" && chmod +x "${0%python}uv"
    ;;
esac
"""
MADE = "pip\nuv simple/of/a/company\n"


@pytest.fixture
def new_checkout(bare):
    """Return a checkout without an environment, and what to give its launcher; if `begun` is a pipe, pip waits."""
    folder, environment = bare
    (folder / "bin" / "python").write_text(MAKES_ENVIRONMENTS)
    shutil.copy(catalogue.ROOT / "harness" / "environment.py", folder / "harness")
    (folder / "harness" / "replication_lab").symlink_to(catalogue.ROOT / "harness" / "replication_lab")
    names = {"BEGUN": "begun", "GO_ON": "go-on", "FAILS": "fails"}
    given = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    return folder, {
        **given,
        **environment,
        "REAL": sys.executable,
        **{k: str(folder / name) for k, name in names.items()},
    }


def _launched(folder, environment, *command, **options):
    return subprocess.Popen(
        ["sh", str(folder / "lab"), *(command or ["status"])],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_of_two_first_commands_one_makes_the_environment_and_the_other_waits(new_checkout):
    """Before, the second one deleted what the first one was making."""
    folder, environment = new_checkout
    for pipe in ("begun", "go-on"):
        os.mkfifo(folder / pipe)
    first = _launched(folder, environment)
    assert (folder / "begun").read_text() == "begun\n"
    second = _launched(folder, environment)
    waits = second.stderr.readline()
    (folder / "go-on").write_text("\n")

    assert waits == "waiting for another command that makes .venv\n"
    assert "making .venv" in first.communicate()[1]
    assert second.communicate()[1] == ""
    assert (first.returncode, second.returncode, (folder / "log").read_text()) == (0, 0, MADE)


def test_a_checkout_at_a_path_with_a_colon_is_refused_in_words(new_checkout):
    """Python refuses to make an environment there, with status 1, which would be a changed verdict."""
    folder, environment = new_checkout
    odd = folder / "a:b"
    odd.mkdir()
    for each in ("lab", "harness", "compose"):
        (folder / each).rename(odd / each)
    said = _launched(odd, environment)

    assert said.communicate()[1].startswith(f"error: the path of this checkout has a colon: {odd}\nexpected: a path ")
    assert said.returncode == 2 and not (odd / ".venv").exists()


def test_an_environment_that_python_cannot_make_is_one_error(new_checkout):
    """As on a full disk."""
    folder, environment = new_checkout
    failing = MAKES_ENVIRONMENTS.replace('"-m venv "*) ', '"-m venv "*) exit 1 ;;\n  "-m never "*) ')
    (folder / "bin" / "python").write_text(failing)
    said = _launched(folder, environment)

    assert "error: the Python environment could not be made in " in said.communicate()[1]
    assert said.returncode == 2


@pytest.mark.parametrize("spoilt", ["bin/python", "installed.txt"])
def test_an_environment_that_is_not_whole_is_made_again(new_checkout, spoilt):
    """Without its Python it cannot be used; without its list it may have been interrupted."""
    folder, environment = new_checkout
    assert _launched(folder, environment).wait() == 0
    assert _launched(folder, environment).wait() == 0
    (folder / ".venv" / spoilt).unlink()

    assert _launched(folder, environment).wait() == 0
    assert (folder / "log").read_text() == 2 * MADE


def test_an_environment_that_could_not_be_made_is_not_used(new_checkout):
    """The error names the next command, and the next command tries again."""
    folder, environment = new_checkout
    (folder / "fails").touch()
    failed = _launched(folder, environment)
    assert "next: rm -rf .venv; ./lab doctor" in failed.communicate()[1]
    assert failed.returncode == 2
    (folder / "fails").unlink()

    assert _launched(folder, environment).wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_what_was_begun_and_the_next_command_makes_the_environment(new_checkout, number):
    """Sent to the launcher alone, and not to what it has started, as a terminal would."""
    folder, environment = new_checkout
    for pipe in ("begun", "go-on"):
        os.mkfifo(folder / pipe)
    stopped = _launched(folder, environment)
    assert (folder / "begun").read_text() == "begun\n"
    stopped.send_signal(number)

    assert f"stopped ({number.name})" in stopped.communicate()[1]
    assert stopped.returncode == 128 + number
    assert not any(str(folder) in " ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"]))
    (folder / "begun").unlink()
    assert _launched(folder, environment).wait() == 0


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        (["up"], True),
        (["up", "semisync", "--lab", "mine"], True),
        (["run", "semisync_wan"], True),
        (["up", "semisnyc"], False),
        (["up", "--help"], False),
        (["status"], False),
        ([], False),
    ],
)
def test_no_engine_is_prepared_for_a_name_that_may_be_wrong(command, starts):
    """It is refused as soon as the libraries are there; an engine that is needed after all is started then."""
    found = runpy.run_path(str(catalogue.ROOT / "harness" / "environment.py"))

    assert found["starts_a_lab"](command) is starts


def test_where_nothing_may_be_installed_the_error_has_the_command_that_makes_the_environment(new_checkout):
    """After it, LAB_INSTALL=no refuses nothing any more."""
    folder, environment = new_checkout
    refused = _launched(folder, environment | {"LAB_INSTALL": "no"})
    assert "next: LAB_INSTALL=yes ./lab --version" in refused.communicate()[1]
    assert (refused.returncode, (folder / "log").read_text()) == (2, "")

    assert _launched(folder, environment | {"LAB_INSTALL": "yes"}).wait() == 0
    assert _launched(folder, environment | {"LAB_INSTALL": "no"}).wait() == 0


def test_the_lab_and_its_tests_have_the_same_versions_of_what_the_lab_needs():
    """Two lists are locked: of the lab, and of the lab with its tests, which has to contain all of the other."""
    lab, tests = (_locked(catalogue.ROOT / part / "requirements.txt") for part in ("harness", "tests"))

    assert len(lab) > 20
    assert {name: tests[name] for name in lab} == lab
    assert not {"pytest", "mypy", "mkdocs"} & lab.keys()


def _locked(path):
    """Return the lines of each package in a list: its versions and hashes, without the systems that they are for."""
    locked = defaultdict(set)
    for part in re.split(r"\n(?=\S)", path.read_text().strip()):
        first, *hashes = part.replace(" \\", "").split("\n")
        pinned = first.partition(" ;")[0]
        locked[pinned.partition("==")[0]] |= {pinned, *map(str.strip, hashes)}
    return locked


@pytest.mark.parametrize(
    "before",
    [
        None,
        "LAB_PASSWORD=old\nENGINE=mysql\n",
        "LAB_ROOT_PASSWORD=a\nLAB_PASSWORD=old\n",
        "LAB_PASSWORD=unended",
    ],
)
def test_a_password_for_each_account_is_written_once(new_checkout, before):
    """What the file has stays, and it can be read by its owner only, whatever the umask."""
    folder, environment = new_checkout
    file = folder / "compose" / ".env"
    if before:
        file.write_text(before)
    for _ in range(2):
        assert subprocess.run(["sh", "-c", f"umask 0; sh {folder}/lab"], env=environment, check=False).returncode == 0
        written = file.read_text()
        found = dict(line.split("=", 1) for line in written.splitlines())
        passwords = [found[f"LAB_{account}PASSWORD"] for account in ("", "ROOT_", "REPLICATOR_")]

        assert written.startswith(before or "LAB_PASSWORD=") and len(set(passwords)) == 3
        assert file.stat().st_mode & 0o777 == 0o600
        before = written
    assert [each.name for each in file.parent.iterdir()] == [".env"]
