"""A new copy for a replica: what is refused beforehand, in which order it is made, and a copy that is none."""

from contextlib import closing
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab.faults import new_replica
from replication_lab.faults.new_replica import OLD, NewReplica
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill_result import judge
from replication_lab.runner import drill_set
from replication_lab.witnesses import servers
from replication_lab.world import catalogue, clock
from replication_lab.world.docker import images, volumes
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import Replica, ReplicaStatus

from tests.fakes.machine import doubts
from tests.fakes.parts import LabOfServers
from tests.unit.synthetic_drill import HISTORY, evidence, fault

FILE = """
about: The replica gets a new copy.
clients: {source: 1}
steps: [{fault: new-replica, by: dump, targets: [replica], seconds: 1}]
promises: [nothing-lost]
"""


def drill(text=FILE, topology="async"):
    return drill_set.parse("new-replica", catalogue.topology(topology), text)


class Server:
    """A server with databases; what is done to it and to its replication is noted in `log`."""

    def __init__(self, name, log, family="mariadb"):
        self.name, self.log, self.dialect = name, log, dialects()[family]
        self.databases, self.gtids, self.replicates = ["mysql", "lab"], "0-1-9", True

    def another(self):
        return self

    def close(self):
        """Do nothing: there is no connection."""

    def rows(self, statement):
        if "EVENTS" in statement:
            return [{"db": "lab", "name": "nightly"}]
        wanted = statement.partition("LIKE ")[2].strip("'")
        return [{"Database": name} for name in self.databases if wanted in ("", name)]

    def value(self, _statement):
        return "0-1-7"

    def execute(self, *statements):
        for each in statements:
            what, _, name = each.replace("`", "").rpartition(" ")
            if what.startswith("ALTER EVENT"):
                self.log.append(each)
            if what.startswith("CREATE DATABASE"):
                self.databases.append(name)
            if what.startswith("DROP DATABASE"):
                self.databases.remove(name)
                self.log.append(f"drop {name}")


class Lab(LabOfServers):
    """A source and a replica; the commands of copies are noted with where they ran."""

    engine, is_attached, manager = "mariadb", False, None

    def __init__(self):
        self.log, self.beside, self.fails = [], {}, False
        super().__init__("async", lambda name: Server(name, self.log))

    def administrator(self, _node):
        return "root", "secret"

    def run(self, service, *command, environment):
        self.log.append(f"copy in {service} from {environment['SOURCE']}:{environment['PORT']}")
        if self.fails:
            raise LabError("`bash` in replica ended with status 2", "exit status 0")
        if service in self.beside:
            self.servers["replica"].databases = ["mysql", "lab"]
        return "0-1-8\n"

    @property
    def containers(self):
        return self.beside

    def run_beside(self, _like, name, _image, mounted):
        assert name not in self.beside
        self.beside[name] = mounted

    def remove_beside(self, name):
        del self.beside[name]
        self.log.append(f"remove {name}")

    def container_of(self, name):
        return SimpleNamespace(name=name, attrs={"Image": "sha256:1"})

    def stop(self, service):
        self.log.append(f"stop {service}")

    def start_again(self, service):
        self.log.append(f"start {service}")

    def answers(self, _service):
        return True

    def refresh(self):
        """Do nothing: no address changes."""


@pytest.fixture
def lab(monkeypatch):
    """Return the lab; the replication of its servers is as they say, and the resets of their logs are noted."""
    made = Lab()

    def noted(what):
        return lambda part, *_given, **_options: made.log.append(f"{what} {part.server.name}")

    monkeypatch.setattr(servers, "_held", {})
    for name in ("stop_following", "follow", "wait_for"):
        monkeypatch.setattr(Replica, name, noted(name))
    monkeypatch.setattr(Replica, "status", lambda part: _status(part.server.replicates))
    monkeypatch.setattr(BinaryLog, "reset", noted("reset"))
    monkeypatch.setattr(
        BinaryLog, "reset_gtids_to", lambda part, gtids: made.log.append(f"{part.server.name} at {gtids}")
    )
    monkeypatch.setattr(BinaryLog, "position", lambda _: {})
    monkeypatch.setattr(BinaryLog, "gtids", lambda part: part.server.gtids)
    monkeypatch.setattr(volumes, "of", lambda _, node: [f"{node}-data"])
    return made


def _status(runs):
    return ReplicaStatus(runs, runs, "toxiproxy", 21002, "", 0)


def test_a_dump_is_loaded_into_an_emptied_server_that_then_follows_its_source(lab):
    """Across the link; nothing of the old copy is left, the new one begins where the dump ends, its events are off."""
    with closing(NewReplica(lab, ["replica"], "dump")) as made:
        made.inject()
        assert doubts(made.verify()) == []
        made.recover()
        assert doubts(made.verify_recovered()) == []

    assert lab.log == [
        "stop_following replica",
        "drop lab",
        f"drop {OLD}",
        "reset replica",
        "copy in replica from toxiproxy:21002",
        "replica at 0-1-7",
        "ALTER EVENT `lab`.`nightly` DISABLE ON SLAVE",
        "follow replica",
        "wait_for replica",
    ]


def test_mydumper_copies_beside_the_replica_and_prints_where_its_copy_ends(lab, monkeypatch):
    """In a container of the image that has it; each server is reached over the network."""
    wanted = []
    monkeypatch.setattr(images, "ensure", wanted.extend)
    with closing(NewReplica(lab, ["replica"], "mydumper")) as made:
        assert (wanted, lab.beside) == (["tools"], {"copying-replica": {}})
        made.inject()

    copied = ["copy in copying-replica from toxiproxy:21002", "replica at 0-1-8"]
    assert lab.log[:5] == ["stop_following replica", "drop lab", f"drop {OLD}", "reset replica", copied[0]]
    assert copied[1] == lab.log[5] and lab.log[-1] == "remove copying-replica"


def test_a_backup_replaces_the_files_of_a_stopped_server(lab):
    """The source's files are only read; the container that copies is removed."""
    with closing(NewReplica(lab, ["replica"], "backup")) as made:
        assert {name: how["mode"] for name, how in lab.beside["copying-replica"].items()} == {
            "source-data": "ro",
            "replica-data": "rw",
        }
        made.inject()
        assert doubts(made.verify()) == []

    copied = "copy in copying-replica from toxiproxy:21002"
    assert lab.log[:4] == ["stop replica", copied, "start replica", "replica at 0-1-8"]
    assert lab.log[-1] == "remove copying-replica"


def test_two_steps_of_a_drill_copy_in_one_container(lab):
    """All faults of a drill are made before its load; the container is removed once."""
    with closing(NewReplica(lab, ["replica"], "backup")), closing(NewReplica(lab, ["replica"], "backup")):
        assert [*lab.beside] == ["copying-replica"]

    assert lab.log == ["remove copying-replica"]


def test_a_copy_that_fails_is_an_error_and_no_new_replica(lab, refused):
    """It does not follow its source then."""
    lab.fails = True

    assert "ended with status 2" in refused(NewReplica(lab, ["replica"], "dump").inject).found
    assert "follow replica" not in lab.log


@pytest.mark.parametrize(
    ("sabotage", "said"),
    [
        (lambda server: server.databases.append(OLD), "the data of replica were those of before"),
        (lambda server: setattr(server, "replicates", False), "the new copy on replica did not replicate"),
    ],
)
def test_old_data_and_a_copy_that_does_not_replicate_are_noticed(lab, sabotage, said):
    """Also between the readings: the witness asks the same."""
    made = NewReplica(lab, ["replica"], "dump")
    made.inject()
    sabotage(lab.servers["replica"])

    assert said in doubts(made.verify())[0]
    assert [said] == servers._contrary(lab.name, "replica", lab.servers["replica"])


def test_a_copy_with_transactions_of_its_own_is_noticed(lab, monkeypatch):
    """Its source does not have them."""
    monkeypatch.setattr(clock, "wait_until", lambda *_arguments, **_options: None)
    made = NewReplica(lab, ["replica"], "dump")
    made.inject()
    lab.servers["replica"].gtids = "0-2-12"
    made.recover()

    assert "which source lacks" in doubts(made.verify_recovered())[0]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("by: dump, ", "", "new-replica with the copy ''"),
        ("by: dump", "by: tape", "new-replica with the copy 'tape'"),
        ("[replica]", "[source]", "new-replica in async"),
    ],
)
def test_a_way_or_a_target_that_there_is_not_is_refused(refused, old, new, found):
    """Before anything starts."""
    assert found in refused(drill, FILE.replace(old, new)).found


def test_a_relay_is_no_target(refused):
    """Its own replicas would follow a server whose log has begun anew."""
    text = FILE.replace("[replica]", "[relay]")

    assert "or has replicas" in refused(drill, text, "chain").found


def test_a_way_of_another_family_is_refused(lab, refused):
    """MariaDB has no clone plugin."""
    error = refused(NewReplica, lab, ["replica"], "clone")

    assert "no copy is made by clone" in error.found
    assert error.expected == "by: dump, mydumper, backup"
    assert set(new_replica.ways()["mysql"]) == {"dump", "mydumper", "clone"}


def test_the_clients_are_compared_from_the_begin_of_the_copy_on():
    """The injection is the change: what it costs counts, and how long it took is a figure."""
    cut = fault(2, 6, 7, 7)
    planned = msgspec.structs.replace(cut, step=drill().steps[0])

    assert (planned.window, cut.window) == ((2, 7), (6, 7))
    assert judge(evidence(acted=[planned]), HISTORY).figures["change_s"] == 4
    assert "change_s" not in judge(evidence(acted=[cut]), HISTORY).figures
