"""Does the wheel, installed by pip with its own dependencies only, do all that a project outside the checkout needs?

This takes the dependencies from the registry that pip uses. What was measured is printed: `pytest -s`.
"""

import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
import replication_lab
from replication_lab.world import catalogue

from tests.lab import attaching, ten_minutes
from tests.lab.outside import Outside, cpu_of_children

pytestmark = [pytest.mark.long, pytest.mark.timeout(3000)]
CONSUMER = catalogue.ROOT / "tests" / "consumer"
# Measured: 288 MB, of which scipy and numpy are 225, and 28 ms. Everything in one list was 358 MB.
MOST_MEGABYTES, MOST_SECONDS = 320, 0.2
QUESTION = "lab ask single --vary sync_binlog=0,1 --runs 3 --duration 1 --noise accept"
NOT_OF_THE_CORE = ("pytest", "starlette", "uvicorn", "mypy", "ruff", "matplotlib", "selenium", "mkdocs")


@pytest.fixture(scope="module")
def outside(tmp_path_factory, built):
    """Return the folders of a user who has installed the core of the package from its wheel."""
    attaching.build()
    user = Outside(tmp_path_factory.mktemp("outside"), dict(attaching.ENVIRONMENT))
    user.install()
    return user


@pytest.fixture(autouse=True)
def no_text_names_the_checkouts_command(outside):
    """Nothing that a test prints or writes says ./lab: reports, JUnit, Markdown, errors, files of state."""
    yield
    assert outside.name_the_checkouts_command() == []


def test_the_core_is_small_and_starts_fast(outside):
    """It has no program of the tests in it, and importing it loads neither Docker's library nor scipy."""
    sizes = outside.megabytes()
    bare_s = outside.seconds_of("-c", "pass", timer=cpu_of_children)
    import_s = outside.seconds_of("-c", "import replication_lab", timer=cpu_of_children) - bare_s
    largest = sorted(sizes.items(), key=lambda each: -each[1])[:5]
    print(f"\ncore: {sum(sizes.values()):.0f} MB, of which {', '.join(f'{n} {s:.0f}' for n, s in largest)}")
    print(f"import replication_lab: {import_s * 1000:.0f} ms")

    assert [name for name in NOT_OF_THE_CORE if any(one.startswith(name) for one in sizes)] == []
    assert sum(sizes.values()) < MOST_MEGABYTES and import_s < MOST_SECONDS
    outside.type("pip check")
    assert outside.type("lab --version") == f"lab {replication_lab.VERSION}\n"
    loaded = "import replication_lab, sys; print({'docker', 'scipy', 'numpy'} & set(sys.modules))"
    assert outside.type(f'python -c "{loaded}"') == "set()\n"


def test_a_lab_and_a_question_have_their_reports(outside, name):
    """Each format of a report, and refusals of several kinds."""
    assert f"{name} is up" in outside.type(f"lab up async --lab {name}")
    outside.type(f"lab status --lab {name}")
    outside.type(f'lab sql source --lab {name} -e "SELECT 1"')
    assert "record and report: runs/" in outside.type(QUESTION, ends=(0, 1, 3))
    for form in ("markdown", "junit", "github", "csv", "html"):
        outside.type(f"lab report latest --format {form}", ends=(0, 1, 3))
    outside.type("lab report latest", ends=(0, 1, 3))
    outside.type("lab drill async --drill cut-link --duration 2", ends=(0, 3))
    run = outside.work / "runs" / "latest"
    assert {"report.html", "junit.xml", "summary.json"} <= {path.name for path in run.iterdir()}
    outside.type(f"lab down --yes --lab {name}")
    for refused in ("up nothing", "detach --lab nothing", "drill --lab nothing", "report nothing", "attach --link app"):
        assert "next:" in outside.type(f"lab {refused}", ends=(2,))
    for group in ("", "up", "attach", "drill", "ask", "images"):
        outside.type(f"lab {group} --help")


def test_the_live_page_needs_its_extra(outside, name):
    """Without it the command says what to install; with it the page is served."""
    assert f"pip install '{outside.wheel.resolve()}[live]'" in outside.type(f"lab live async --lab {name}", ends=(2,))
    outside.type(f"pip install -q '{outside.wheel}[live]'")
    print(f"\nwith [live]: {sum(outside.megabytes().values()):.0f} MB")
    command = ["lab", "live", "async", "--lab", name, "--no-open"]
    page = subprocess.Popen(
        command,
        cwd=outside.work,
        env=outside.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = ""
        for line in page.stdout:
            said += line
            if found := re.search(r"http://\S+", line):
                break
        else:
            raise AssertionError(said)
        with urllib.request.urlopen(found[0]) as answer:
            assert "./lab" not in said + answer.read().decode()
    finally:
        page.send_signal(signal.SIGINT)
        page.communicate(timeout=120)
        outside.type(f"lab down --yes --lab {name}", ends=(0, 2))


def test_a_session_that_does_not_use_the_plugin_pays_nothing(outside):
    """No call of Docker, no import of docker or scipy, and next to no time."""
    outside.type("pip install -q pytest pytest-xdist pymysql")
    (outside.work / "plain").mkdir()
    (outside.work / "plain" / "test_plain.py").write_text(
        "import sys\n\ndef test_nothing_is_loaded():\n"
        "    assert not {'docker', 'scipy', 'numpy', 'requests', 'msgspec'} & set(sys.modules)\n"
    )
    with Engine(outside.root / "docker.sock") as engine:
        outside.type(f"DOCKER_HOST=unix://{engine.path} python -m pytest -q -p no:cacheprovider plain")
    assert engine.calls == 0
    session = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "plain")
    used = outside.seconds_of(*session, timer=cpu_of_children)
    unused = outside.seconds_of(*session, "-p", "no:replication_lab.pytest_plugin", timer=cpu_of_children)
    print(f"\nsession of one test: {used * 1000:.0f} ms of CPU with the plugin, {unused * 1000:.0f} ms without")
    assert used - unused < MOST_SECONDS


class Engine:
    """A socket in place of the Docker engine's, which counts the calls."""

    def __init__(self, path: Path):
        self.path, self.calls = path, 0

    def __enter__(self):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()
        return self

    def _count(self):
        try:
            while True:
                self._socket.accept()[0].close()
                self.calls += 1
        except OSError:
            pass

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


def test_the_suite_of_the_consumer_project_passes(outside):
    """All of tests/consumer; on a busy machine a claim may be UNKNOWN, which is an expected failure."""
    outside.type("pip install -q pytest pytest-xdist pymysql")
    outside.copy(CONSUMER, "consumer")
    said = outside.type("python -m pytest -q -n 2 --dist loadscope --lab-unknown xfail", "consumer")

    assert re.search(r"\d+ passed", said) and "failed" not in said.replace("xfailed", "")
    assert len(list((outside.work / "consumer" / "runs").glob("*/junit.xml"))) >= 4


@pytest.mark.parametrize(("folder", "link"), [("shop", "app:db"), ("replicas", "app:db"), ("cluster", "app:db1")])
def test_a_project_is_attached_drilled_and_detached(outside, folder, link):
    """Three projects of users, copied outside the checkout."""
    name = f"{folder}-{secrets.token_hex(3)}"
    outside.copy(attaching.PROJECTS / folder, name)
    try:
        outside.type(f"docker compose -p {name} up --detach --wait", name)
        before = attaching.settings(name)
        outside.type(f"lab attach -p {name} --link {link} --rtt 40ms --yes", name, ends=(0, 3))
        container = f"{name}-web" if folder == "shop" else f"{name}-app-1"
        outside.type(f"docker exec {container} {attaching.PROBE}")
        assert "connections of app so far" in outside.type(f"lab status --lab {name}", name)
        outside.type(f"lab drill --lab {name} --drill cut-link --probe '{attaching.PROBE}'", name)
        outside.type(f"lab detach --lab {name}", name)
        assert attaching.settings(name) == before
    finally:
        attaching.remove(name, outside.work / name)


def test_the_ten_minutes(outside):
    """What docs/attach.md shows was typed like this; here it is typed again."""
    ten_minutes.type_all(outside)
    page = (catalogue.ROOT / "docs" / "attach.md").read_text()

    assert [line for line in ten_minutes.lines() if f"$ {line}" not in page] == []
    assert os.path.basename(outside.wheel) in page
