"""Is the network of a lab made on the manager of one swarm, and is a swarm changed only by who made it?"""

from types import SimpleNamespace

import pytest
from docker.errors import APIError
from replication_lab.cli.options import sites_of
from replication_lab.cli.sites import join as join_command
from replication_lab.model.lab.site import Site
from replication_lab.world import catalogue, owners
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import swarm

DB2 = "tcp://10.1.0.2:2375"
AT = {"source": Site("", network="overlay"), "replica": Site(DB2, network="overlay")}
MANAGER = {"NodeID": "m", "ControlAvailable": True, "LocalNodeState": "active"}
WORKER = {"NodeID": "w", "ControlAvailable": False, "LocalNodeState": "active", "RemoteManagers": [{"NodeID": "m"}]}
IN_NONE = {"LocalNodeState": "inactive", "NodeID": ""}


class Running:
    """Containers that run, as the SDK starts them."""

    def __init__(self):
        self.running = []

    def run(self, image, network, **_options):
        self.running.append((image, network))
        return SimpleNamespace(name=image, labels={}, remove=lambda **_: self.running.remove((image, network)))


class Engine:
    """An engine in a state of a swarm, which notes what it is told."""

    def __init__(self, state, labels=None, networks=(), refuses=False, members=()):
        self.told, self._state, self._refuses = [], state, refuses
        self.swarm, self.containers = self, Running()
        self.attrs = {"JoinTokens": {"Worker": "token"}, "Spec": {"Labels": labels or {}}}
        listed = [SimpleNamespace(name=name) for name in networks]
        self.networks = SimpleNamespace(create=self._note("create"), list=lambda **_: listed)
        about = {"Status": {"State": "ready"}, "Description": {"Hostname": "db3"}}
        self.nodes = SimpleNamespace(list=lambda: [SimpleNamespace(id=each, attrs=about) for each in members])
        self.init, self.leave, self.reload = self._note("init"), self._note("leave"), lambda: None

    def _note(self, what):
        return lambda *given, **options: self.told.append((what, *given, options))

    def info(self):
        return {"Swarm": self._state}

    def join(self, remote, token, **options):
        if self._refuses:
            raise APIError("no", explanation="connection refused")
        self.told.append(("join", remote, token, options))


@pytest.fixture
def engines(monkeypatch):
    """Let the command's own engine and another one be these."""

    def are(here, there):
        monkeypatch.setattr(docker_engine, "client", lambda: here)
        monkeypatch.setattr(docker_engine, "of_site", lambda _endpoint: there)
        return here, there

    return are


@pytest.mark.parametrize(
    ("here", "there", "addresses", "network"),
    [
        (MANAGER, WORKER, (), "overlay"),
        (MANAGER, WORKER, ("source=10.1.0.1", "replica=10.1.0.2"), "ports"),
        (IN_NONE, WORKER, ("source=10.1.0.1", "replica=10.1.0.2"), "ports"),
    ],
)
def test_engines_that_are_in_one_swarm_are_found(here, there, addresses, network, engines, capsys):
    """Then its network is taken, and told, unless addresses are given."""
    engines(Engine(here), Engine(there))
    found = sites_of(catalogue.topology("semisync"), (f"replica={DB2}",), addresses, None)

    assert {site.network for site in found.values()} == {network}
    assert ("the engines are in one swarm" in capsys.readouterr().err) == (network == "overlay")


def test_the_network_is_made_once_by_a_manager_wherever_it_is(engines):
    """It is attachable, and marked as the lab's. A container holds it on a worker while Compose starts."""
    worker, manager = engines(Engine(WORKER), Engine(MANAGER))
    with swarm.network_made("lab-a", AT):
        assert worker.containers.running == [("replication-lab/toxiproxy", "lab-a_sites")]
    with swarm.network_made("lab-b", {"source": Site("", "10.1.0.1")}):
        pass

    assert worker.containers.running == []
    [(_, name, options)] = manager.told
    marks = {"replication-lab": owners.owner(), "com.docker.compose.project": "lab-a"}
    assert name == "lab-a_sites" and options == {
        "driver": "overlay",
        "attachable": True,
        "options": {},
        "labels": marks,
    }


def test_engines_that_are_not_in_one_swarm_are_refused(engines, refused):
    """One in none, one in another swarm, and a swarm whose managers are no sites."""

    def made():
        with swarm.network_made("lab-a", AT):
            pytest.fail("it was made")

    engines(Engine(MANAGER), Engine(IN_NONE))
    outside = refused(made)
    engines(Engine(MANAGER), Engine(MANAGER | {"NodeID": "other"}))
    another = refused(made)
    engines(Engine(WORKER), Engine(WORKER))

    assert outside.found == another.found == f"{DB2} is not in the swarm of the command's own engine"
    assert refused(made).found == "none of the sites is a manager of a swarm"


def test_a_network_of_a_swarm_is_removed_by_its_manager():
    """A worker lists it while a container is in it, and cannot remove it."""

    def network(state, scope):
        return SimpleNamespace(attrs={"Scope": scope}, client=Engine(state))

    assert swarm.is_removed_elsewhere(network(WORKER, "swarm"))
    assert not swarm.is_removed_elsewhere(network(MANAGER, "swarm"))
    assert not swarm.is_removed_elsewhere(network(IN_NONE, "local"))


def test_engines_join_a_swarm_that_leave_undoes(engines):
    """The first is its manager, and the swarm is marked as the lab's."""
    here, there = engines(Engine(IN_NONE), Engine(IN_NONE))
    swarm.join({"": "10.1.0.1", DB2: "10.1.0.2"})

    assert [each[0] for each in here.told] == ["init"] and "replication-lab" in here.told[0][1]["labels"]
    assert there.told == [
        ("join", ["10.1.0.1:2377"], "token", {"listen_addr": "10.1.0.2", "advertise_addr": "10.1.0.2"})
    ]
    here, there = engines(Engine(MANAGER, {"replication-lab": "x"}, members=["m", "w"]), Engine(WORKER))
    swarm.leave(["", DB2])
    assert here.told == there.told == [("leave", {"force": True})]


def test_a_swarm_is_made_whole_or_not_at_all(engines, refused):
    """An engine that cannot join, or is in a swarm, leaves all as they were."""
    here, _ = engines(Engine(IN_NONE), Engine(IN_NONE, refuses=True))
    failed = refused(swarm.join, {"": "10.1.0.1", DB2: "10.1.0.2"})
    busy, _ = engines(Engine(IN_NONE), Engine(WORKER))

    assert "connection refused" in failed.found and here.told[-1] == ("leave", {"force": True})
    assert refused(swarm.join, {"": "10.1.0.1", DB2: "10.1.0.2"}).found == f"{DB2} is in a swarm already"
    assert busy.told == []


def test_only_the_labs_own_swarm_is_left_and_not_while_a_lab_uses_it(engines, refused):
    """A swarm of the user's own stays, whatever is typed."""
    others, _ = engines(Engine(MANAGER), Engine(WORKER))
    not_own = refused(swarm.leave, ["", DB2])
    used, _ = engines(Engine(MANAGER, {"replication-lab": "x"}, ["lab-a_sites"]), Engine(WORKER))

    assert not_own.found == "this swarm was not made by the lab"
    assert refused(swarm.leave, ["", DB2]).found == "labs use this swarm: lab-a_sites"
    assert others.told == used.told == []


def test_no_engine_stays_in_a_swarm_without_its_manager(engines, refused):
    """It could only be made to leave by hand then."""
    here, there = engines(Engine(MANAGER, {"replication-lab": "x"}, members=["m", "w", "third"]), Engine(WORKER))

    assert refused(swarm.leave, ["", DB2]).found == "db3 would stay in the swarm without a manager"
    assert here.told == there.told == []


def test_engines_are_changed_only_after_a_question(engines, refused):
    """Without a terminal there is no answer."""
    here, _ = engines(Engine(IN_NONE), Engine(IN_NONE))
    error = refused(join_command.callback, machines=("here=10.1.0.1", f"{DB2}=10.1.0.2"), yes=False, json_=False)

    assert error.next_step == f"./lab sites join here=10.1.0.1 {DB2}=10.1.0.2 --yes" and here.told == []
