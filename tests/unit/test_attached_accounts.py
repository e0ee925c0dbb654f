"""Is a server asked only with an account that may ask it, and is it said what the others lack?"""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pymysql
import pytest
from replication_lab.attach import servers
from replication_lab.attach.servers import ServersOfProject
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.server_version import parse_version
from replication_lab.world.docker import attached_servers, machine, reach
from replication_lab.world.docker.attached_servers import accepted
from replication_lab.world.mysql.accounts import Account, NoAnswer

from tests.fakes.connection import dialled_by

ROOT, OWN = Account("root", "r", "--dsn"), Account("app", "a", "MYSQL_PASSWORD")
DENIED = pymysql.err.OperationalError(
    1227, "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for this operation"
)
CONTAINER = SimpleNamespace(name="shop-db-1", attrs={"Config": {"Env": ["MYSQL_USER=app"]}})
RANDOM = SimpleNamespace(name="shop-db-1", attrs={"Config": {"Env": ["MYSQL_RANDOM_ROOT_PASSWORD=true"]}})


@pytest.fixture
def server(monkeypatch):
    """Make a server where the first account may not ask; of MySQL 8.0 without GTIDs."""

    def make(*, first=DENIED, known=("root", "app")):
        version = parse_version("8.0.40")
        monkeypatch.setattr(
            attached_servers, "version_for", lambda _, account: version if account.user in known else None
        )
        dialled_by(monkeypatch)({"SHOW REPLICA STATUS": first, "SELECT CURRENT_USER()": [{"user": "app@%"}]})
        return lambda accounts, container=CONTAINER: accepted("db", "shop", ("127.0.0.1", 1), accounts, container)

    return make


def test_an_account_that_may_not_ask_is_passed_over(server):
    """Root's, from another container or given by the user, comes next."""
    found, account = server()([OWN, ROOT])
    assert account == ROOT and found.name == "db"


def test_what_an_account_lacks_is_said_with_its_grant(server, refused):
    """The privilege as the server names it, the account as the server knows it, and the option for another one."""
    error = refused(server(), [OWN])

    assert "accepts the account app (MYSQL_PASSWORD), which may not ask how the server replicates" in error.found
    assert "GRANT REPLICATION CLIENT ON *.* TO 'app'@'%'" in error.expected and "--dsn db=@FILE" in error.expected
    assert "--dsn db=@FILE" in error.next_step


def test_a_password_that_the_server_chose_is_in_its_log(server, refused):
    """The vendors' images write it there at the first start, and nowhere else."""
    error = refused(server(), [OWN], RANDOM)
    assert error.next_step == "docker logs shop-db-1 2>&1 | grep 'GENERATED ROOT PASSWORD'"


def test_a_server_that_fails_otherwise_is_no_matter_of_privileges(server, refused):
    """Such as one with too many clients."""
    error = refused(server(first=pymysql.err.OperationalError(1040, "Too many connections")), [OWN])
    assert "1040" in error.found


def test_no_account_at_all_is_told(server, refused):
    """None is accepted, or none is known."""
    assert "accepts none of the accounts" in refused(server(known=()), [OWN, ROOT]).found


# --- where a server is reached ----------------------------------------------------------------------------------------


def of_project(started_seconds_ago=1000.0, ports=None, status="running", addresses=("172.20.0.2",)):
    began = (datetime.now(UTC) - timedelta(seconds=started_seconds_ago)).isoformat()
    networks = {f"net{number}": {"IPAddress": each} for number, each in enumerate(addresses)}
    container = SimpleNamespace(
        name="shop-db-1",
        status=status,
        reload=lambda: None,
        attrs={
            "State": {"StartedAt": began},
            "Config": {},
            "HostConfig": {},
            "NetworkSettings": {"Networks": networks, "Ports": ports or {}},
        },
    )
    return ServersOfProject("shop", {"db": 3306}, {"db": [container]}, {})


@pytest.fixture
def engine(monkeypatch):
    """Say where the engine is, and whether containers' addresses answer from here."""

    def make(*, answers=False, near=True, elsewhere="", rootless=False):
        monkeypatch.setattr(servers, "reachable", lambda *_: answers)
        monkeypatch.setattr(machine, "is_near", lambda: near)
        found = machine.EngineMachine("", "", 1, 1, "", rootless=rootless, elsewhere=elsewhere)
        monkeypatch.setattr(machine, "facts", lambda: found)
        monkeypatch.setattr(reach, "address", lambda host, port: (f"through the engine to {host}", port))
        monkeypatch.setattr(servers, "accepted", lambda _node, _project, address, *_: (address, ROOT))

    return make


PUBLISHED = {"3306/tcp": [{"HostIp": "0.0.0.0", "HostPort": "33060"}]}


@pytest.mark.parametrize(
    ("where", "ports", "address"),
    [
        ({"answers": True}, PUBLISHED, ("172.20.0.2", 3306)),
        ({}, PUBLISHED, ("127.0.0.1", 33060)),
        ({"elsewhere": "in a virtual machine"}, PUBLISHED, ("127.0.0.1", 33060)),
        ({"elsewhere": "in a virtual machine"}, {}, ("through the engine to 172.20.0.2", 3306)),
        ({"rootless": True}, {}, ("through the engine to 172.20.0.2", 3306)),
        # What answers at that address here is something else.
        ({"near": False, "elsewhere": "remote", "answers": True}, {}, ("through the engine to 172.20.0.2", 3306)),
        ({"near": False, "elsewhere": "remote"}, PUBLISHED, ("through the engine to 127.0.0.1", 33060)),
    ],
)
def test_a_server_is_reached_without_a_published_port(engine, where, ports, address):
    """By its container's address where there is a way to it, else through the machine of the engine."""
    engine(**where)
    assert of_project(ports=ports).server("db") == address


def test_a_server_that_does_not_answer_at_its_port_is_told(engine):
    """Its log says why."""
    engine()
    with pytest.raises(NoAnswer, match="db does not answer at port 3306 of its container") as raised:
        of_project().started("db")
    assert raised.value.next_step == "docker logs --tail 20 shop-db-1"


def test_a_server_that_is_starting_is_waited_for(engine, monkeypatch):
    """Compose waits for health checks only, and this server has none."""
    engine()
    answers = iter([False, False, True])
    monkeypatch.setattr(servers, "reachable", lambda *_: next(answers))
    assert of_project(started_seconds_ago=3).started("db") == ("172.20.0.2", 3306)


def test_a_server_that_has_ended_is_not_waited_for(engine):
    """Its container tells."""
    engine()
    with pytest.raises(NoAnswer):
        of_project(started_seconds_ago=3, status="exited").started("db")


def test_an_account_that_is_refused_is_not_tried_again(engine, monkeypatch):
    """Only a connection is waited for."""
    engine(answers=True)

    def refuse(*_):
        raise LabError("accepts none of the accounts", "", "")

    monkeypatch.setattr(servers, "accepted", refuse)
    with pytest.raises(LabError, match="accepts none"):
        of_project(started_seconds_ago=1).started("db")
