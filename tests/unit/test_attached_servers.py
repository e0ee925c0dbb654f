"""Are the servers of an attached project known by every host name, and is its own database the default one?"""

from types import SimpleNamespace

import pytest
from replication_lab.attach import plan as attach_plan
from replication_lab.attach.servers import ServersOfProject
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.mysql.accounts import database_from

from tests.unit.attached_projects import attachment

ID = "0123456789abcdef"


def container(name, hostname=ID[:12], **environment):
    networks = {"shop_default": {"IPAddress": "172.20.0.2", "Aliases": ["db-primary", name]}}
    config = {"Hostname": hostname, "Env": [f"{key}={value}" for key, value in environment.items()]}
    return SimpleNamespace(
        name=f"shop-{name}-1", id=ID, attrs={"Config": config, "NetworkSettings": {"Networks": networks}}
    )


def lab(monkeypatch, databases=("shop",), **environment):
    """Return an attached shop whose server lists these databases."""
    found = AttachedLab("shop", attachment().topology, "mariadb", "", attached=attachment(), attached_by="1-2")
    found.all_containers.all = {"db": [container("db", **environment)]}
    rows = [{"Database": name} for name in databases]
    server = SimpleNamespace(rows=lambda _sql: rows)
    monkeypatch.setattr(AttachedLab, "node", lambda _lab, _name: SimpleNamespace(server=lambda: server))
    return found


@pytest.mark.parametrize("host", ["db", "shop-db-1", ID[:12], "db-primary", "172.20.0.2"])
def test_a_server_is_known_by_the_names_of_its_container(monkeypatch, host):
    """A member of a group reports its host name, by default that of its container."""
    assert lab(monkeypatch).node_at(host) == "db"


def test_another_host_keeps_its_name(monkeypatch):
    """Such as a server outside the project."""
    assert lab(monkeypatch).node_at("elsewhere.example") == "elsewhere.example"


@pytest.mark.parametrize(
    ("environment", "databases", "found"),
    [
        ({"MYSQL_DATABASE": "shop"}, ["shop"], "shop"),
        ({"MARIADB_DATABASE": "shop", "MYSQL_DATABASE": "old"}, ["shop", "old"], "shop"),
        ({}, ["shop"], ""),
        ({"MYSQL_DATABASE": "dropped"}, ["shop"], ""),
    ],
)
def test_the_default_database_is_the_project_s_own(monkeypatch, environment, databases, found):
    """Only one that exists: a client could not connect to another."""
    assert lab(monkeypatch, databases, **environment).database("db") == found


def test_a_database_may_be_named_in_a_file():
    """As the vendors' images allow for each of their variables."""
    assert database_from({"MYSQL_DATABASE_FILE": "/run/name"}, {"/run/name": "shop\n"}.__getitem__) == "shop"


def test_each_container_of_a_service_is_asked(monkeypatch):
    """One that does not answer is told by its own name, and the others are there."""
    containers = [SimpleNamespace(name=f"shop-db-{number}") for number in (1, 2, 3)]

    def started(found, node):
        if (name := found.containers[node][0].name) == "shop-db-1":
            raise LabError("it does not answer")
        return f"server of {name}"

    monkeypatch.setattr(ServersOfProject, "started", started)
    silent: dict[str, LabError] = {}
    found = ServersOfProject("shop", {"db": 3306}, {"db": containers}, {})
    answering = attach_plan._answering(attach_plan.AskedAttachment([]), found, silent)

    assert answering == {name: f"server of {name}" for name in ("shop-db-2", "shop-db-3")}
    assert [*silent] == ["shop-db-1"]


STAYS = "relay.000003"


def server(monkeypatch, relay_log, log_bin="/var/lib/mysql/binlog"):
    """Return a server with these logs."""
    rows = {"": {"Relay_Log_File": relay_log}} if relay_log else {}
    monkeypatch.setattr(attach_plan, "Replica", lambda _server: SimpleNamespace(channel_rows=lambda: rows))
    return SimpleNamespace(settings=lambda *_: {"log_bin_basename": log_bin} if log_bin else {})


@pytest.mark.parametrize(
    ("logs", "what"),
    [
        ((f"{ID[:12]}-relay-bin.000003",), "relay log: "),
        ((STAYS, f"/var/lib/mysql/{ID[:12]}-bin"), "log_bin_basename: /var/lib/mysql/"),
    ],
)
def test_a_server_that_names_its_logs_after_its_container_is_not_recreated(monkeypatch, logs, what):
    """It would not find them in a container with another name, and would stop replicating."""
    with pytest.raises(LabError, match=rf"names its logs after its container \({what}"):
        attach_plan._check_log_names("db-replica", server(monkeypatch, *logs), container("db-replica"))


@pytest.mark.parametrize(
    ("hostname", "logs"),
    [("db-replica", ("db-replica-relay-bin.000003",)), (ID[:12], (STAYS,)), ("", (STAYS,)), (ID[:12], ("", ""))],
)
def test_logs_with_a_name_that_stays_are_no_reason(monkeypatch, hostname, logs):
    """A host name of the project's, a name in its my.cnf, or a server without logs."""
    attach_plan._check_log_names("db", server(monkeypatch, *logs), container("db", hostname))
