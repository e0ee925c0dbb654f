"""Can another project test itself with the lab? tests/consumer is one, copied and run beside an installed wheel."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from replication_lab.world import catalogue
from replication_lab.world.docker import images

from tests.lab.conftest import things_of
from tests.lab.outside import built_wheel

CONSUMER = catalogue.ROOT / "tests" / "consumer"
# The processes of pytest-xdist remove their labs within the ten seconds that they are given.
END_SECONDS = 60


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Return a Python that has the lab as an installed wheel, and pytest and all requirements from this environment."""
    root = tmp_path_factory.mktemp("consumer")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "env"], check=True)
    found = root / "env" / "bin" / "python"
    uv = [Path(sys.prefix) / "bin" / "uv", "pip", "install", "--offline", "--no-deps", "-q", "--python", found]
    subprocess.run([*uv, built_wheel(root / "wheel")], check=True, env=clean())
    # A plain path: the checkout, which this environment names in a .pth file of its own, is not found there.
    (packages,) = (root / "env" / "lib").glob("python3*/site-packages")
    (packages / "requirements.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return found


def clean() -> dict[str, str]:
    """Return an environment that knows nothing of the checkout and of this test session."""
    left_out = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "LAB_", "COV")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


@pytest.fixture(autouse=True)
def images_here(monkeypatch):
    """Let the project's containers run an image of the lab, without Ryuk: no registry answers everywhere."""
    images.ensure(["mysql-8.0"])
    monkeypatch.setenv("SHOP_MYSQL", "replication-lab/mysql-8.0")
    monkeypatch.setenv("SHOP_READY", r".*: ready for connections.*port: 3306.*")
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")


@pytest.fixture
def project(tmp_path):
    """Return a copy of the project, outside the checkout."""
    return Path(shutil.copytree(CONSUMER, tmp_path / "shop"))


@pytest.fixture
def tests(python, project):
    """Run the project's tests with these arguments; give what pytest printed."""

    def run(*arguments, ends=0) -> str:
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        ended = subprocess.run(command, cwd=project, env=clean(), capture_output=True, text=True, check=False)
        said = ended.stdout + ended.stderr
        assert ended.returncode == ends, said
        return said

    return run


def test_another_project_tests_its_application_on_a_lab(tests, project):
    """One lab for a module: its own topology and toxic, a link that is cut, a node that is killed."""
    said = tests("tests/test_orders.py", "-q", "-k", "reaches or cut or lost")

    assert "3 passed" in said
    assert not (project / "runs").exists(), "only runs are written"


@pytest.mark.long
def test_another_project_tests_its_application_at_a_container_of_testcontainers(tests):
    """Across links of the installed package: far away, cut, and slow by the fixture."""
    assert "3 passed" in tests("tests/test_containers.py", "-q")


def test_files_of_the_project_are_found_by_every_command(python, project):
    """By `lab list`, with their origin, in a copy of the project anywhere."""
    lab = [python.parent / "lab", "list", "--json"]
    found = json.loads(subprocess.run(lab, cwd=project / "shop", env=clean(), capture_output=True, check=True).stdout)
    own = {
        row.get("toxic") or row.get("topology") or row.get("drill") or row.get("experiment") or row.get("workload")
        for rows in found.values()
        for row in rows
        if "lab/" in row.get("origin", "")
    }

    assert {"branch-office", "branch", "async", "branch_distance", "sync_costs", "orders"} == own


FAILING = """
import os

def test_that_fails(lab):
    shop = lab("single")
    print("NAME", shop.name)
    assert shop.writer.value("SELECT 1") == 2

def test_that_passes(lab):
    lab("single")

def test_drill_that_is_refuted(lab_drill, tmp_path):
    file = tmp_path / "more.yaml"
    file.write_text(
        "about: Nothing happens.\\ntopology: single\\nclients: {server: 1}\\nbefore: 1\\n"
        "expected: [{says: a row is lost, figure: lost, at_least: 1}]\\n"
    )
    assert lab_drill(file).as_expected
"""


@pytest.mark.long
def test_a_failed_test_keeps_its_lab_and_names_its_report(tests, project, python):
    """With --lab-keep: how to reach and remove it is printed; the lab of a test that passed is gone."""
    (project / "tests" / "test_failing.py").write_text(FAILING)
    said = tests("tests/test_failing.py", "-q", "--lab-keep", ends=1)
    kept = sorted(set(re.findall(r"(\S+) stays up: ", said)))
    try:
        assert "2 failed, 1 passed" in said
        assert f"to remove it: lab down --lab {kept[-1]}" in said
        assert "REFUTED, expected HOLDS: a row is lost" in said and "report: runs/" in said
        assert re.search(r"NAME (\S+)", said)[1] in kept and "LAB_DSN=mysql://" in said
        assert all(map(things_of, kept))
    finally:
        for name in kept:
            command = [python.parent / "lab", "down", "--yes", "--lab", name]
            subprocess.run(command, cwd=project, env=clean(), capture_output=True, check=True)
    assert [thing for name in kept for thing in things_of(name)] == []


WAITING = """
import time
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_that_waits(lab, number):
    found = lab("single")
    open(found.name, "w").close()
    time.sleep(300)
"""


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
@pytest.mark.parametrize("processes", [0, 2], ids=["one process", "pytest-xdist"])
def test_labs_go_when_the_session_is_stopped(python, project, processes, sent):
    """By their own processes, without a command that sweeps."""
    (project / "tests" / "test_waiting.py").write_text(WAITING)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"-n{processes}", "tests/test_waiting.py"]
    session = subprocess.Popen(command, cwd=project, env=clean(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    labs = wait_for(lambda: [path.name for path in project.glob("test-single-*")], max(1, processes))
    session.send_signal(sent)
    session.wait(END_SECONDS)

    wait_for(lambda: [name for name in labs if not things_of(name)], len(labs))


def wait_for(find, count):
    """Wait until that many are found."""
    until = time.monotonic() + END_SECONDS
    while len(found := find()) < count:
        assert time.monotonic() < until, f"found {found}"
        time.sleep(0.2)
    return found


@pytest.mark.long
def test_the_whole_suite_of_another_project_passes_in_parallel(tests, project):
    """Drills, claims and labs in two processes; each run has its report.

    On a machine that is busy with these tests a claim may be UNKNOWN, which is not a pass: it is an expected failure.
    """
    said = tests("-q", "-n", "2", "--dist", "loadscope", "--lab-unknown", "xfail")

    assert re.search(r"\d+ passed", said) and "failed" not in said.replace("xfailed", "")
    assert len(list((project / "runs").glob("*/report.html"))) >= 4


@pytest.mark.long
def test_a_test_runs_once_for_each_engine(tests):
    """By one option."""
    said = tests("tests/test_orders.py", "-q", "--lab-engine", "mariadb,mysql-8.0", "-k", "reaches_the_replica")

    assert "2 passed" in said
