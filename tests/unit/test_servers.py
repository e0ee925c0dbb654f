"""Is a server by name or image recognised correctly, or refused in one error?"""

import subprocess
from types import SimpleNamespace

import msgspec
import pytest
from docker.errors import APIError
from replication_lab import faults, replication
from replication_lab.cli.options import server_of
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.server_name import ServerName, by_node, lab_text, parse_server, text_of_nodes
from replication_lab.model.lab.server_version import parse_version
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, lab_files
from replication_lab.world.docker import compose, images, lab, project, servers
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.mysql.dialects import dialect_of
from replication_lab.world.mysql.features import features_of

from tests.fakes.docker_engine import Holding, Thing

MARIADB = b"mariadbd  Ver 11.8.9-MariaDB-0+deb13u1 from Debian for debian-linux-gnu on x86_64 (-- Please help)\n"
# Of a topology: the overlay's first lines name it.
FILE = catalogue.compose_file("async")
MYSQL = b"/usr/sbin/mysqld  Ver 8.4.3 for Linux on x86_64 (MySQL Community Server - GPL)\n"


@pytest.mark.parametrize(
    ("text", "engine", "image"),
    [
        ("mysql-8.0", "mysql-8.0", ""),
        ("mysql:8.4", "", "mysql:8.4"),
        ("percona:8.4", "", "percona/percona-server:8.4"),
        ("vendor.example:5000/ours:1", "", "vendor.example:5000/ours:1"),
        ("mariadb@vendor.example/ours:1", "mariadb", "vendor.example/ours:1"),
    ],
)
def test_a_text_names_one_server(text, engine, image):
    """A name of the catalogue, a vendor's version, an image, an image with its engine."""
    assert parse_server(text) == ServerName(engine, image)


@pytest.mark.parametrize("text", ["oracle:19", "mysql:", "a b/c", "mysql@/x", "mysql:8.4 --privileged"])
def test_a_text_that_names_none_is_refused(text, refused):
    """An unknown vendor, a tag that is missing, what Docker would not take."""
    refused(parse_server, text)


@pytest.mark.parametrize(
    ("engine", "image", "text"),
    [
        (None, None, ""),
        (None, "mysql:8.4", "mysql:8.4"),
        ("mysql:8.4", None, "mysql:8.4"),
        (None, "vendor.example/ours", "vendor.example/ours:latest"),
        ("mysql", "vendor.example/ours:1", "mysql@vendor.example/ours:1"),
        # Without a slash it would name a vendor or an engine.
        (None, "ours", "docker.io/library/ours:latest"),
    ],
)
def test_the_options_make_that_text(engine, image, text):
    """--engine and --image together name one server."""
    assert lab_text([engine] if engine else [], [image] if image else []) == text


@pytest.mark.parametrize(
    ("said", "dialect"),
    [
        ("11.8.9-MariaDB-0+deb13u1 from Debian-log", "mariadb"),
        (MARIADB.decode(), "mariadb"),
        ("9.7.0", "mysql"),
        ("8.0.33-25", "mysql"),
        (MYSQL.decode(), "mysql"),
        ("5.7.22-log", "mysql-5.6"),
        ("5.5.34", "mysql-5.5"),
    ],
)
def test_the_version_gives_the_dialect(said, dialect):
    """What a server says of itself decides, not its name."""
    assert dialect_of(parse_version(said)) == dialect
    assert (catalogue.COMPOSE / "engines" / f"{dialect}.yaml").is_file()


@pytest.mark.parametrize("engine", sorted(catalogue.engines()))
def test_each_engines_version_has_the_dialect_of_its_row(engine):
    """The rows of engines.yaml and the versions of dialects.yaml agree."""
    row = catalogue.engines()[engine]
    said = f"{row.version}.0.0" + ("-MariaDB" if engine.startswith("mariadb") else "")

    assert dialect_of(parse_version(said)) == row.dialect


@pytest.mark.parametrize("said", ["8.0.20", "5.1.73", "10.0.1-MariaDB", "sh: mysqld: not found"])
def test_a_version_without_a_dialect_is_refused(said, refused):
    """MySQL 8.0 before 8.0.26 has only half of the newer words."""
    refused(lambda: dialect_of(parse_version(said)))


class Containers:
    """An engine whose images say a version, or cannot be pulled."""

    def __init__(self, said=MARIADB, here=True):
        self.said, self.here, self.images, self.containers, self.pulled = said, here, self, self, []
        self.left = []

    def get(self, _image):
        if not self.here:
            raise images.ImageNotFound("none")

    def pull(self, image):
        self.pulled.append(image)
        raise APIError("500", explanation="lookup registry.example: no such host")

    def create(self, _image, _command, **_options):
        return Asked(self)


class Asked:
    """A container that is asked for the version of its server."""

    def __init__(self, engine):
        self.engine = engine

    def start(self):
        self.engine.left.append(self)

    def wait(self):
        return {"StatusCode": 127 if self.engine.said is None else 0}

    def logs(self, **_options):
        return b"sh: mysqld: not found" if self.engine.said is None else self.engine.said

    def remove(self, *, force, v):
        assert force and v, "the volumes that the image declares would be left"
        self.engine.left.remove(self)


@pytest.fixture
def machine(monkeypatch):
    """Use an engine with these images."""

    def use(**options):
        servers.ready.cache_clear()
        found = Containers(**options)
        monkeypatch.setattr(docker_engine, "client", lambda: found)
        return found

    yield use
    servers.ready.cache_clear()


def test_an_image_is_asked_for_its_version(machine):
    """Its own program says which engine's files it needs; a local image is not pulled."""
    found = machine(said=MYSQL)

    assert servers.ready("vendor.example/ours:1") == ServerName("mysql", "vendor.example/ours:1")
    assert (
        servers.shown(catalogue.topology("single"), "vendor.example/ours:1") == "vendor.example/ours:1"
        and not found.pulled
    )
    assert found.left == []


def test_an_engine_of_ours_asks_nothing(machine, monkeypatch):
    """The start of a lab with its own image is not slower than before."""
    monkeypatch.setattr(docker_engine, "client", lambda: pytest.fail("the engine was asked"))

    assert servers.ready("mysql-8.0") == ServerName("mysql-8.0")


def test_an_image_that_cannot_be_pulled_is_one_error(machine, refused):
    """The engine's reason, and how to load an image without a registry."""
    machine(here=False)
    error = refused(servers.ready, "mysql:8.4")

    assert "image mysql:8.4 is not on this machine" in error.found and "no such host" in error.found
    assert "docker pull mysql:8.4" in error.next_step and "docker load" in error.next_step


def test_an_image_of_another_engine_than_the_user_says_is_refused(machine, refused):
    """--engine mysql for an image with MariaDB."""
    machine()
    error = refused(servers.ready, "mysql@vendor.example/ours:1")

    assert "has MariaDB 11.8.9, which is not mysql" in error.found


def test_an_image_that_says_nothing_needs_its_engine(machine, refused):
    """Without --engine it is refused; with it, the running server is asked later."""
    machine(said=None)
    error = refused(servers.ready, "vendor.example/ours:1")

    assert "cannot be identified" in error.found and "--engine" in error.expected
    assert servers.ready("mysql@vendor.example/ours:1").engine == "mysql"


@pytest.mark.parametrize(
    ("topology", "said", "lacks"), [("group", MARIADB, "group"), ("galera", MYSQL, "galera"), ("semisync", MYSQL, "")]
)
def test_an_image_without_the_topologys_replication_is_refused(topology, said, lacks, machine):
    """MariaDB has no Group Replication, MySQL no Galera."""
    machine(said=said)
    found = catalogue.topology(topology)
    if lacks:
        with pytest.raises(LabError, match=f"has no {lacks}"):
            servers.make_ready(found, "vendor.example/ours:1")
    else:
        servers.make_ready(found, "vendor.example/ours:1")


@pytest.mark.parametrize(("topology", "lacks"), [("group", "group"), ("galera", "galera")])
def test_a_vendors_engine_is_refused_where_its_line_says_that_it_lacks_the_replication(topology, lacks, machine):
    """Percona Server is of MySQL's family, and its image starts no group."""
    machine(said=MYSQL)
    with pytest.raises(LabError, match=f"has no {lacks}"):
        servers.make_ready(catalogue.topology(topology), "percona")


class Running:
    """A server with these variables."""

    def __init__(self, version, **variables):
        self._version, self._variables = version, variables

    def version(self):
        return self._version

    def settings(self, *names):
        return {name: value for name, value in self._variables.items() if name in names}


@pytest.mark.parametrize(
    ("running", "features"),
    [
        (Running("8.4.3", gtid_mode="ON"), {"gtid", "tmp_innodb"}),
        (
            Running("5.6.14", gtid_mode="ON", rpl_semi_sync_master_enabled="OFF"),
            {"gtid", "semisync", "tmp_myisam", "tmp_counted"},
        ),
        (
            Running(
                "11.8.9-MariaDB", wsrep_provider="/usr/lib/galera/libgalera_smm.so", aria_used_for_temp_tables="ON"
            ),
            {"galera", "tmp_aria", "tmp_counted"},
        ),
        (Running("11.8.9-MariaDB", wsrep_provider="none"), {"tmp_counted"}),
    ],
)
def test_features_are_read_from_the_running_server(running, features):
    """A plugin that is not loaded is no feature, whatever the version."""
    assert features_of(running) == features


@pytest.mark.parametrize(
    ("topology", "adds"), [("drbd", {"drbd"}), ("drbd-ha", {"drbd"}), ("semisync", set()), ("async", {"async"})]
)
def test_a_topology_adds_only_the_feature_that_its_servers_cannot_report(monkeypatch, topology, adds):
    """A replicated disk is below the server, and every server can be a replica.

    A plugin that is not loaded is no feature, whatever the topology needs.
    """
    made = lab.Lab("lab-x", catalogue.topology(topology), "mariadb", {})
    monkeypatch.setattr(lab, "features_of", lambda _server: frozenset({"gtid"}))
    monkeypatch.setattr(
        lab.Lab,
        "node",
        lambda *_: SimpleNamespace(run=lambda *_: "", server=lambda: None, dialect=SimpleNamespace(family="mariadb")),
    )

    assert made.features == {"gtid"} | adds


def test_a_drill_that_shifts_clocks_needs_the_labs_own_entrypoint(refused):
    """Another image would ignore the shift."""
    drills = drill_set.chosen("semisync", None, None)
    movers = ", ".join(each.name for each in drills if each.moves_clocks(faults.kinds()))
    error = refused(drill_set.make_ready, "semisync", "mysql:8.4", drills)

    assert f"{movers} shifts a server's clock, which mysql:8.4 does not support" in error.found


# --- nodes that run different servers ---------------------------------------------------------------------------------


def test_each_node_has_the_server_that_is_given_for_it():
    """By NODE=, for all others the one without, or the topology's own."""
    text = lab_text(["source=mysql-8.0", "replica=mysql"], [])

    assert text == "source=mysql-8.0 replica=mysql"
    assert by_node(text, ["source", "replica"], "mariadb") == {"source": "mysql-8.0", "replica": "mysql"}
    assert by_node("mysql replica=mysql-8.0", ["a", "replica"], "mariadb") == {"a": "mysql", "replica": "mysql-8.0"}
    assert by_node("a=mysql", ["a", "b"], "mariadb") == {"a": "mysql", "b": "mariadb"}
    assert lab_text(["replica=mysql"], ["replica=vendor.example/ours:1"]) == "replica=mysql@vendor.example/ours:1"
    assert text_of_nodes({"a": "mysql", "b": "mysql"}) == "mysql"


def test_a_lab_is_named_by_all_its_nodes():
    """Also where some were left out, or all turn out to be the same."""
    assert server_of("async", ["replica=mysql-8.0"], []) == "source=mariadb replica=mysql-8.0"
    assert server_of("group", ["node2=mysql-8.0"], []) == server_of("group", [], []) == "mysql-8.0"


def test_a_node_is_given_one_server(refused):
    """Twice, none, or for a node that there is not."""
    refused(lab_text, ["replica=mysql", "replica=mariadb"], [])
    refused(lab_text, ["mysql", "mariadb"], [])
    refused(lab_text, ["replica="], [])
    assert "leaf" in refused(by_node, "leaf=mysql", ["source", "replica"], "mariadb").found


def test_the_nodes_of_a_cluster_run_the_same(refused):
    """They begin with the prepared data of one image."""
    error = refused(replication.refuse_unfit_servers, catalogue.topology("galera"), "mariadb node2=mariadb-10.11")

    assert "galera, whose nodes all start with the data of one image" in error.found


def test_each_node_needs_what_the_topology_needs(refused):
    """MySQL 5.7 here has no semi-sync, also as the replica of another."""
    assert (
        "mysql-5.7 has no semisync"
        in refused(
            replication.refuse_unfit_servers, catalogue.topology("semisync"), "source=mysql-8.0 replica=mysql-5.7"
        ).found
    )


def test_equal_servers_need_no_further_compose_file():
    """The topology's own file says it all."""
    assert servers.overlay(catalogue.topology("async"), "mysql-8.0", FILE) == ""
    assert servers.overlay(catalogue.topology("async"), "source=mysql-8.0 replica=mysql-8.0", FILE) == ""


def test_the_compose_file_of_different_servers_gives_each_node_its_own(machine):
    """Image, settings, and how a replica connects; four capabilities for an image of others only."""
    machine()
    text = "source=mysql-8.0 replica=vendor.example/ours:1"
    file = msgspec.yaml.decode(servers.overlay(catalogue.topology("async"), text, FILE))
    source, replica = file["services"]["source"], file["services"]["replica"]

    assert source["image"] == "replication-lab/mysql-8.0" and "cap_add" not in source
    assert replica["image"] == "vendor.example/ours:1" and "CHOWN" in replica["cap_add"]
    assert replica["labels"] == {"replication-lab.engine": "mariadb"}
    assert file["configs"]["settings-source"]["file"].endswith("compose/engines/mysql.cnf")
    assert "MASTER_USE_GTID" in file["configs"]["replicate-replica"]["content"]
    assert "replicate-source" not in file["configs"]


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Start a lab of two such servers, whose containers are these; return the variables that Compose was given."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)

    def start(text, *containers):
        given, healthy = {}, iter([False, True])

        def run(command, env, **_):
            given.update(env)
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(compose.Project, "_is_healthy", lambda *_: next(healthy))
        monkeypatch.setattr(compose, "LOOK_CLOSELY_SECONDS", 0)
        monkeypatch.setattr(docker_engine, "client", lambda: Holding(containers))
        project.start(LabRequest(catalogue.topology("async"), text, "lab-a"))
        return given

    return start


def test_different_servers_get_one_character_set(started):
    """Each node makes the database by itself: by its own default a table would have other columns on a replica."""
    assert "LAB_CHARACTERS" not in started("mariadb")
    assert started("replica=mysql-8.0")["LAB_CHARACTERS"].startswith("CHARACTER SET utf8mb4")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("serving, not replicating: IO thread No: Unknown system variable 'gtid_domain_id'", "Unknown system variable"),
        ("serving, not replicating: SQL thread No: Unknown collation", "Unknown collation"),
        ("serving, not replicating: IO thread Connecting: message: Access denied for user", "Access denied"),
        # Tried again by the server, and by itself in order soon.
        ("serving, not replicating: IO thread Connecting: Can't connect to server on 'toxiproxy'", ""),
        ("serving, not replicating: IO thread No", ""),
        ("serving, replicating from toxiproxy:21002", ""),
    ],
)
def test_a_start_ends_when_a_replica_has_given_up_its_source(started, said, reason):
    """By the server's own words in its health check; what the server tries again is waited for."""
    replica = Thing("lab-a", "compose", "replica", State={"Health": {"Log": [{"Output": said}]}})
    if not reason:
        assert started("replica=mysql-8.0", replica)
        return
    with pytest.raises(LabError, match=rf"replica \(mysql-8.0\) cannot replicate from source \(mariadb\): .*{reason}"):
        started("replica=mysql-8.0", replica)
    assert replica.removed
