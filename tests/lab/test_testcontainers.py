"""Do containers that the real Testcontainers starts get links that are proved, and are unproved links told?

The library runs without Ryuk; test_testcontainers_ryuk.py has it.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pymysql
import pytest
import requests
from replication_lab.model.core.errors import LabError, Unproved
from replication_lab.testcontainers import lab_from, proved_link
from replication_lab.testcontainers.lab import LINK
from replication_lab.world import catalogue
from replication_lab.world.docker import engine, images
from replication_lab.world.packets.toxiproxy import Toxiproxy
from testcontainers.community.mysql import MySqlContainer
from testcontainers.compose import DockerCompose
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.lab import attaching

# A server of no family that the lab knows: it returns what it gets.
PORT, ECHO = (
    7000,
    """
use IO::Socket::INET;
my $door = IO::Socket::INET->new(LocalPort => 7000, Listen => 9, ReuseAddr => 1) or die;
$SIG{CHLD} = "IGNORE"; $SIG{TERM} = sub { exit };
for (;;) {
    my $client = $door->accept or next;
    next if fork;
    while (sysread($client, my $bytes, 65536)) { syswrite($client, $bytes) }
    exit;
}
""",
)
PAGE = catalogue.ROOT / "docs" / "pytest.md"
MYSQL = {"username": "me", "password": "secret", "root_password": "secret", "dbname": "app"}


@pytest.fixture(scope="module", autouse=True)
def without_ryuk(built):
    testcontainers_config.ryuk_disabled = True
    images.ensure(["sidecar", "mysql-8.0"])
    attaching.build()


def echo(network: Network | None = None) -> DockerContainer:
    """Return a container with a plain TCP server, before its start."""
    found = DockerContainer("replication-lab/sidecar")
    found.with_kwargs(entrypoint=["perl", "-e", ECHO], healthcheck={"test": ["NONE"]})
    return found.with_network(network) if network else found


@pytest.fixture(scope="module")
def server():
    """Return a running plain TCP server."""
    with echo() as found:
        yield found


@pytest.fixture(scope="module")
def mysql():
    """Return a MySqlContainer in a network of Testcontainers; the pattern is that of one start of the server."""
    ready = r".*: ready for connections.*port: 3306.*"
    found = MySqlContainer("replication-lab/mysql-8.0", **MYSQL, wait_strategy_check_string=ready)
    with Network() as network, found.with_network(network):
        yield found


def trip_ms(link) -> float:
    """Return the shortest of five round trips across a link, by a client of the test's own; OSError if it fails."""
    with socket.create_connection((link.host, link.port), timeout=2) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return 1000 * min(_seconds(client) for _ in range(5))


def _seconds(client: socket.socket) -> float:
    began = time.monotonic()
    client.sendall(b"x")
    if not client.recv(1):
        raise ConnectionResetError
    return time.monotonic() - began


def received(client: socket.socket, size: int) -> bool:
    """Return whether that many bytes come."""
    while size > 0 and (found := client.recv(size)):
        size -= len(found)
    return size == 0


def left() -> list[str]:
    """Return the containers of links that are there."""
    return [
        one.name
        for one in engine.client().containers.list(all=True, ignore_removed=True)
        if one.name.startswith("link-")
    ]


# --- what a link does -------------------------------------------------------------------------------------------------


def test_a_link_to_any_server_is_slow_limited_silent_cut_and_reset(server):
    """Measured by the test itself; afterwards the first condition is back, and at the end nothing is left."""
    with proved_link(server, PORT, "85ms") as link:
        assert 85 <= trip_ms(link) < 100
        with link.slow("200ms"):
            assert 200 <= trip_ms(link) < 230
        with link.rate("1mbit"), socket.create_connection((link.host, link.port), timeout=10) as client:
            began = time.monotonic()
            client.sendall(bytes(100_000))
            assert received(client, 100_000) and time.monotonic() - began > 0.7
        with link.cut(), pytest.raises(OSError):
            trip_ms(link)
        with link.black_hole(), pytest.raises(TimeoutError):
            trip_ms(link)
        with link.reset(), pytest.raises(ConnectionError):
            trip_ms(link)
        assert 85 <= trip_ms(link) < 100
        crossed = link.crossed
    assert crossed >= 5 and all(proof.ok for proof in link.proofs)
    assert left() == []


def test_a_link_to_mysql_is_measured_at_the_server_and_serves_other_containers(mysql):
    """A client beside it connects by the name that `inside` tells."""
    with proved_link(mysql, 3306, "85ms") as link:
        connection = pymysql.connect(host=link.host, port=link.port, user="me", password="secret", database="app")
        began = time.monotonic()
        connection.ping()
        assert 0.085 <= time.monotonic() - began < 0.2
        connection.close()
        host, port = link.inside
        client = DockerContainer("replication-lab/mysql-8.0").with_network(mysql._network)
        dial = f"exec 3<>/dev/tcp/{host}/{port} && head -c 20 <&3 | tail -c 6"
        client.with_kwargs(entrypoint=["bash", "-c", f"{dial}; sleep 60"], healthcheck={"test": ["NONE"]})
        before = link.crossed
        with client:
            until = time.monotonic() + 20
            while link.crossed == before:
                assert time.monotonic() < until, client.get_logs()
                time.sleep(0.1)
    assert any("round trip 8" in proof.found for proof in link.proofs)


def test_a_service_of_a_compose_project_has_a_link_in_an_internal_network(name, project):
    """`service` names it; the project's files and containers stay as they are."""
    before = attaching.settings(name)
    with proved_link(project, 3306, "40ms", service="db") as link:
        connection = pymysql.connect(host=link.host, port=link.port, user="shop", password="pass$word")
        connection.close()
    assert attaching.settings(name) == before and left() == []


# --- what is told -----------------------------------------------------------------------------------------------------


def toxics_of(link) -> tuple[str, list[dict]]:
    """Return the address of a link's own toxics, and what they are."""
    api = f"http://{link._lab.toxiproxy.address}/proxies/{LINK}/toxics"
    return api, requests.get(api, timeout=5).json()


def remove(link) -> None:
    api, there = toxics_of(link)
    for each in there:
        requests.delete(f"{api}/{each['name']}", timeout=5, headers={"User-Agent": "another"}).raise_for_status()


def remove_for_a_moment(link) -> None:
    api, there = toxics_of(link)
    remove(link)
    for each in there:
        requests.post(api, json=each, timeout=5, headers={"User-Agent": "another"}).raise_for_status()


@pytest.mark.parametrize(
    ("sabotage", "told"),
    [(remove, "the toxic was removed from one of its ports"), (remove_for_a_moment, "another sent DELETE /proxies/")],
)
def test_a_condition_that_another_program_takes_off_is_told(server, sabotage, told):
    """Also if it is on again at the end."""
    with pytest.raises(Unproved, match=told):
        with proved_link(server, PORT, "85ms") as link:
            trip_ms(link)
            sabotage(link)


def test_traffic_that_goes_another_way_is_told(server):
    """The test connects to the container itself: nothing that it saw had the condition."""
    with pytest.raises(Unproved, match="no connection crossed the link"):
        with proved_link(server, PORT, "85ms"):
            own = server.get_wrapped_container()
            own.reload()
            (network,) = own.attrs["NetworkSettings"]["Networks"].values()
            socket.create_connection((network["IPAddress"], PORT), timeout=2).close()


@pytest.fixture
def idle_proxy(monkeypatch):
    """Let every toxic act on hardly any connection, although Toxiproxy lists it."""
    call = Toxiproxy.call

    def without_effect(self, method, path, body=None):
        idle = {**body, "toxicity": 1e-9} if method == "POST" and path.endswith("/toxics") else body
        return call(self, method, path, idle)

    monkeypatch.setattr(Toxiproxy, "call", without_effect)


@pytest.mark.parametrize("condition", ["85ms", "1mbit", "black-hole", "reset"])
def test_a_proxy_that_silently_does_nothing_is_told_before_the_test_begins(server, idle_proxy, condition):
    """Toxiproxy lists each toxic, and none acts."""
    with pytest.raises(Unproved, match="link test-server is"):
        with proved_link(server, PORT, condition):
            pytest.fail("the block began")
    assert left() == []


def test_an_error_of_the_test_is_its_own_and_nothing_is_left(server):
    """The end of the link is not verified then."""
    with pytest.raises(AssertionError, match="of the test"):
        with proved_link(server, PORT, "85ms"):
            raise AssertionError("of the test")
    assert left() == []


def test_a_port_without_a_server_and_a_container_without_a_network_are_refused(server):
    """Before the block begins."""
    with pytest.raises(LabError, match=f"nothing accepts connections at port {PORT + 1}"):
        with proved_link(server, PORT + 1):
            pytest.fail("the block began")
    lonely = echo().with_kwargs(entrypoint=["sleep", "60"], network_mode="none", healthcheck={"test": ["NONE"]})
    with lonely, pytest.raises(LabError, match="is in the network none"):
        with proved_link(lonely, PORT):
            pytest.fail("the block began")


# --- a Compose project as a lab ---------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch, name):
    """Return the shop of tests/lab/attached as a DockerCompose that runs, under a name of its own."""
    for variable, value in attaching.ENVIRONMENT.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", name)
    folder = Path(shutil.copytree(attaching.PROJECTS / "shop", tmp_path / "shop"))
    found = DockerCompose(folder)
    try:
        with found:
            yield found
    finally:
        attaching.remove(name, folder)


@pytest.mark.long
def test_a_compose_project_is_drilled_with_a_ledger_and_restored(name, project, request):
    """By the fixture lab_from, with the record, the ledger and the verdict of `lab drill`."""
    before = attaching.settings(name)
    with request.getfixturevalue("lab_from")(project, "app:db", rtt="40ms") as attached:
        attaching.inside(f"{name}-web", "curl", "-fsS", "http://localhost:8080/health")
        assert "cut-link-app-db" in attached.drills
        folder, summary = attached.drill("cut-link-app-db")

    assert summary.exit_code == 0, summary
    assert (folder / "ledger-cut-link-app-db.jsonl").stat().st_size
    assert attaching.settings(name) == before


def taken_off(command, name, _folder):
    assert command("link", "set", "app-db", "none", "--lab", name).returncode == 0


def recreated(_command, name, folder):
    attaching.compose(folder, name, "up", "--detach", "--wait", "--no-deps", "--force-recreate", "app")


@pytest.mark.long
@pytest.mark.parametrize(
    ("sabotage", "told"),
    [(taken_off, "app-db is 40ms: "), (recreated, "link app-db: NOT IN USE: app was recreated without the lab")],
)
def test_a_link_of_a_project_that_is_not_proved_at_the_end_is_told(command, name, project, sabotage, told):
    """Its condition is gone, or its application does not use it any more. The project is as before."""
    before = attaching.settings(name)
    with pytest.raises(Unproved, match=told):
        with lab_from(project, "app:db", rtt="40ms"):
            sabotage(command, name, project.context)
    assert attaching.settings(name) == before


# --- the tests of a user ----------------------------------------------------------------------------------------------

SUITE = '''
import socket
import pytest
import requests
from testcontainers.core.container import DockerContainer

ECHO = """{echo}"""

def answer(host, port):
    with socket.create_connection((host, port), timeout=3) as client:
        client.sendall(b"x")
        return client.recv(1)

def toxics(link):
    return f"http://{{link._lab.toxiproxy.address}}/proxies/test-server/toxics"

@pytest.fixture
def server():
    found = DockerContainer("replication-lab/sidecar")
    with found.with_kwargs(entrypoint=["perl", "-e", ECHO], healthcheck={{"test": ["NONE"]}}):
        yield found

def test_the_application_waits_for_a_slow_server(server, lab_proved_link):
    with lab_proved_link(server, 7000, "85ms") as link:
        assert answer(link.host, link.port) == b"x"
        {sabotage}
'''
UNTOUCHED = "pass"
TAKEN_OFF = """for each in requests.get(toxics(link)).json():
            requests.delete(f"{toxics(link)}/{each['name']}")"""


@pytest.mark.parametrize(("sabotage", "status"), [(UNTOUCHED, 0), (TAKEN_OFF, 1)], ids=["untouched", "taken off"])
def test_a_users_test_fails_when_the_proxy_silently_does_nothing(tmp_path, sabotage, status):
    """By the fixture, in a session of its own; docs/pytest.md shows what is printed, and -s prints it here."""
    (tmp_path / "test_shop.py").write_text(SUITE.format(echo=ECHO.replace("\\", "\\\\"), sabotage=sabotage))
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "replication_lab.pytest_plugin",
            "test_shop.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "TESTCONTAINERS_RYUK_DISABLED": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    print(ended.stdout)

    assert ended.returncode == status, ended.stdout + ended.stderr
    (shown,) = re.findall(r"```text\n( +def test_the_application.*?)```", PAGE.read_text(), re.DOTALL)
    assert "UNKNOWN: link test-server is 85ms: the toxic was removed from one of its ports" in shown
    assert (shown in ended.stdout) == bool(status)
    assert left() == []


KILLED = """
import os, signal
from types import SimpleNamespace
from replication_lab.testcontainers import proved_link
from testcontainers.core.container import DockerContainer

given = DockerContainer("replication-lab/sidecar")
given._container = SimpleNamespace(id="{id}")
with proved_link(given, 7000, "85ms"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_session_left_goes_with_the_next_command_of_the_lab(server, command):
    """Without Ryuk nothing else would remove it; the user's own container stays."""
    program = KILLED.format(id=server.get_wrapped_container().id)
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TESTCONTAINERS_RYUK_DISABLED": "true"}, check=False
    )
    assert ended.returncode == -9 and left()
    command("down", "--lab", "no-such-lab")

    assert left() == []
    server.get_wrapped_container().reload()
