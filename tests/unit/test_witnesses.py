"""Do the witnesses tell what others did from what the lab did itself?"""

import queue
import threading
from types import SimpleNamespace

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.witnesses.acts import ContainerWitness, LinkWitness
from replication_lab.witnesses.sampled import Sampled
from replication_lab.witnesses.servers import paths
from replication_lab.world import catalogue, clock, requests_made
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import engine_events, labels
from replication_lab.world.docker.engine_events import EngineEvents
from replication_lab.world.packets import netem, packet_loss
from replication_lab.world.requests_made import SENDER

NODE = "0123456789abcdef"
END = None


class FakeEngine:
    """An engine whose events a test gives."""

    def __init__(self):
        self.told = queue.Queue()

    def events(self, **_):
        return self

    def __iter__(self):
        return iter(self.told.get, END)

    def close(self):
        self.told.put(END)


@pytest.fixture
def engine(monkeypatch):
    found = FakeEngine()
    monkeypatch.setattr(docker_engine, "client", lambda: found)
    return found


@pytest.fixture
def heard(engine):
    """Return what others did, by the acts that an engine tells of one node, all at this moment."""

    def of(*acts, restarting=frozenset(), requests=()):
        events = EngineEvents("lab-x", {NODE: "node1"}, restarting)
        for kind in requests:
            with requests_made.noted(kind, NODE):
                pass
        for act in acts:
            kind = "network" if act in ("connect", "disconnect") else "container"
            about = {"container": NODE} if kind == "network" else {}
            engine.told.put({"Type": kind, "Action": act, "Actor": {"ID": NODE, "Attributes": about}})
        events.close()
        return [event.act for event in events.by_others()]

    return of


@pytest.fixture(autouse=True)
def nothing_requested():
    requests_made._made.clear()
    requests_made._commands.clear()


@pytest.mark.parametrize(
    ("request_", "acts"),
    [
        ("kill", ["kill", "disconnect", "die"]),
        ("stop", ["kill", "kill", "die", "disconnect", "stop"]),
        ("start", ["connect", "start"]),
        ("restart", ["kill", "die", "stop", "start", "restart"]),
        ("pause", ["pause"]),
        ("update", ["update"]),
        ("delete", ["kill", "die", "disconnect", "destroy"]),
    ],
)
def test_what_the_lab_asked_for_is_its_own_and_the_same_by_others_is_not(heard, request_, acts):
    """The engine tells what it does, not for whom."""
    assert heard(*acts, requests=[request_]) == []
    requests_made._made.clear()
    assert set(heard(*acts)) == set(acts) - {"die", "connect", "disconnect"}


def test_a_start_by_others_after_the_labs_own_kill_is_told(heard):
    """One request explains only what it can cause."""
    assert heard("kill", "die", "start", requests=["kill"]) == ["start"]
    requests_made._made.clear()
    assert heard("kill", "die", "start", "kill", "die", requests=["kill"]) == ["start", "kill"]


def test_a_request_explains_its_effect_once_also_to_later_observers(engine):
    """One drill ends with it, and in the next others do the same a moment later."""
    with requests_made.noted("unpause", NODE):
        pass

    def others_at(time):
        events = EngineEvents("lab-x", {NODE: "node1"}, set())
        about = {"Type": "container", "Action": "unpause", "timeNano": time}
        engine.told.put({**about, "Actor": {"ID": NODE, "Attributes": {}}})
        events.close()
        return [event.act for event in events.by_others()]

    assert others_at(1) == []
    # Two that observe at the same time hear the same act.
    assert others_at(1) == []
    assert others_at(2) == ["unpause"]


def test_a_container_that_the_lab_makes_again_is_its_own_act_until_another_program_starts_it(engine):
    """The new one is not known before the engine tells of it; only the request to start it explains its start."""
    events = EngineEvents("lab-x", {NODE: "node1"}, set())
    new = {labels.PROJECT: "lab-x", labels.SERVICE: "node1"}
    with requests_made.noted(requests_made.EXCHANGE, "node1"):
        for act in ("kill", "die", "stop", "destroy"):
            engine.told.put({"Type": "container", "Action": act, "Actor": {"ID": NODE, "Attributes": {}}})
        for act in ("create", "extract-to-dir", "start"):
            engine.told.put({"Type": "container", "Action": act, "Actor": {"ID": "new", "Attributes": new}})
    events.close()

    assert [event.act for event in events.by_others()] == ["start"]


def test_a_container_that_ends_by_itself_is_no_interference(heard):
    """A server may crash by the fault; what the engine's policy starts again then is no interference either."""
    assert heard("oom", "die", "disconnect") == []
    assert heard("die", "disconnect", "connect", "start", restarting={NODE}) == []
    assert heard("kill", "die", "start", restarting={NODE}) == ["kill", "start"]


def test_an_event_that_cannot_be_read_ends_the_observation(engine, monkeypatch):
    """What comes after it is not known: the witness does not cover it."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    events = EngineEvents("lab-x", {NODE: "node1"}, set())
    engine.told.put({"Type": "container"})

    assert until(lambda: events.lost)


def test_a_reader_that_ended_by_an_error_leaves_a_gap(monkeypatch):
    """No reading is not a good reading."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    server = SimpleNamespace(answering_within=lambda _: None)
    lab = SimpleNamespace(node=lambda _: SimpleNamespace(server=lambda: server))
    lab.another = lambda: lab
    witness = Sampled("it is so", lab, {"node1": lambda _: 1 / 0})
    zero = clock.timer()

    assert until(lambda: witness.observation(zero).gap_s > 0.1)
    witness.close()


def test_a_slow_start_explains_its_own_connection_and_no_other(heard, monkeypatch):
    """On a busy machine the engine connects a container seconds before it starts it."""
    monkeypatch.setattr(engine_events, "FOLLOWS_SECONDS", -1.0)
    assert heard("connect", "start", requests=["start"]) == []
    requests_made._made.clear()
    with requests_made.noted("start", "of another container"):
        pass
    assert heard("connect") == ["connect"]


def test_a_network_that_others_took_away_is_told(heard):
    """Without an end or a start of the container there is no other reason."""
    assert heard("disconnect", "connect") == ["disconnect", "connect"]


# --- commands ---------------------------------------------------------------------------------------------------------

CHECK = "/usr/local/bin/lab-health --deep"


@pytest.fixture
def commands_told(engine):
    """Return what a witness tells of the commands that an engine reports of a node, by (ID, command)."""

    def of(*commands, own=(), check=("CMD-SHELL", CHECK)):
        attributes = {"HostConfig": {}, "Config": {"Healthcheck": {"Test": [*check]}}}
        node = SimpleNamespace(id=NODE, attrs=attributes)
        manager = SimpleNamespace(kind=SimpleNamespace(view=["cluster", "view"]))
        lab = SimpleNamespace(name="lab-x", containers={"node1": node}, manager=manager)
        witness, zero = ContainerWitness(lab), clock.timer()
        for number in own:
            with requests_made.noted(requests_made.COMMAND, "some command", number):
                pass
        for number, command in commands:
            for act in ("exec_create", "exec_start"):
                actor = {"ID": NODE, "Attributes": {"execID": number}}
                engine.told.put({"Type": "container", "Action": f"{act}: {command}", "Actor": actor})
        witness.close()
        return [each.what for each in witness.observation(zero).contrary]

    return of


def test_a_command_of_others_is_told_and_the_labs_own_is_not(commands_told):
    """By the ID that the engine gave each of them."""
    told = commands_told(("a1", "nice yes"), ("b2", "sh -c 'iptables -F'"), own=["a1"])

    assert told == ["node1: command \"sh -c 'iptables -F'\""]


def test_health_checks_and_readings_from_another_terminal_are_expected(commands_told):
    """The engine itself runs the one, `lab watch` the other."""
    assert commands_told(("a1", f"/bin/sh -c {CHECK}"), ("b2", "spindle stats"), ("c3", "spindle set x")) == [
        "node1: command 'spindle set x'"
    ]


def test_a_health_check_of_one_word_is_expected(commands_told):
    """The engine reports it with a space behind it."""
    assert commands_told(("a1", "ready "), check=["CMD", "ready"]) == []


@pytest.mark.parametrize(
    "command",
    [
        "mariadb -uroot lab",
        'env MYSQL_PWD= guest --terminal bash -c . /etc/lab/environment && exec "$@" bash mariadb -uroot lab',
        f"bash -c {netem.STEPS}\nshow",
        f"guest bash -c {netem.STEPS}\nshow",
        f"bash -c {packet_loss.READ}",
        "cluster view",
    ],
)
def test_commands_of_the_lab_from_another_process_are_expected(commands_told, command):
    """`lab sql` opens a client, `lab link` reads what is done to packets, `lab status` asks a manager for its view."""
    assert commands_told(("a1", command)) == []


@pytest.mark.parametrize(
    "command",
    [
        "mariadb -uroot -e STOP SLAVE",
        f"bash -c {netem.STEPS}\ndrop 1",
        f"bash -c {packet_loss.STEPS}\ndrop_in 1",
        f"x /bin/sh -c {CHECK}",
        "ls /var/lib/mysql",
        "cluster quiet",
    ],
)
def test_other_commands_are_told_also_if_they_resemble_those(commands_told, command):
    """`lab exec` runs any command, and what it does is not known."""
    assert len(commands_told(("a1", command))) == 1


def test_a_container_that_others_start_in_a_nodes_network_is_told(engine, monkeypatch):
    """It may have the power to change the rules on packets there, which the node has not."""
    events = EngineEvents("lab-x", {NODE: "node1"}, set())
    modes = {"f00d": f"container:{NODE}", "beef": "bridge"}
    engine.api = SimpleNamespace(inspect_container=lambda one: {"HostConfig": {"NetworkMode": modes[one]}})
    for container in modes:
        for act in ("create", "start"):
            engine.told.put({"Type": "container", "Action": act, "Actor": {"ID": container, "Attributes": {}}})
    events.close()
    assert [str(event) for event in events.by_others()] == ["a container in the network of node1: start"]


def test_files_that_others_put_into_a_container_are_told(heard):
    """As by `docker cp`."""
    assert heard("extract-to-dir", requests=["archive"]) == []
    requests_made._made.clear()
    assert heard("extract-to-dir") == ["extract-to-dir"]


def test_events_of_other_projects_are_not_counted(engine):
    """Those of a container that was made since are."""
    events = EngineEvents("lab-x", {}, set())
    project = {"com.docker.compose.project": "lab-y", "com.docker.compose.service": "node1"}
    engine.told.put({"Type": "container", "Action": "kill", "Actor": {"ID": "f" * 16, "Attributes": project}})
    own = {**project, "com.docker.compose.project": "lab-x"}
    engine.told.put({"Type": "container", "Action": "kill", "Actor": {"ID": "e" * 16, "Attributes": own}})
    events.close()

    assert [event.container for event in events.by_others()] == ["e" * 16]


# --- links ------------------------------------------------------------------------------------------------------------


def until(condition):
    """Return the first true value of a condition that a thread of the lab makes true."""
    for _ in range(1000):
        if found := condition():
            return found
        threading.Event().wait(0.01)
    raise AssertionError("never")


class FakeProxy:
    """A Toxiproxy with or without a list of changes."""

    address = "127.0.0.1:1"

    def __init__(self, lists=True):
        self.lists, self.began, self.all, self.state = lists, 1, [], {"a-b": {"enabled": True}}
        self.readings = 0

    def changes(self, since=0):
        if not self.lists:
            return None
        return {"began": self.began, "now": 50.0, "count": len(self.all), "changes": self.all[since:]}

    def proxies(self):
        self.readings += 1
        if self.state is None:
            raise LabError("gone", "a proxy")
        return self.state


@pytest.fixture
def observed():
    """Return the observation about a lab's only link, given its proxy and what happens meanwhile."""
    opened = []

    def of(proxy, meanwhile):
        link = SimpleNamespace(name="a-b", toxiproxy=proxy, proxy=SimpleNamespace(name="toxiproxy"))
        lab = SimpleNamespace(topology=SimpleNamespace(links=[link]), link=lambda _: link, refresh=lambda: None)
        lab.another = lambda: lab
        zero = clock.timer()
        opened.append(LinkWitness(lab))
        meanwhile(proxy)
        return opened[-1], zero

    yield of
    for each in opened:
        each.close()


def changed_by(agent):
    return lambda proxy: proxy.all.append({"at": 49.0, "agent": agent, "method": "DELETE", "path": "/proxies/a-b"})


def test_a_change_of_others_is_told_with_its_time_and_the_labs_own_is_not(observed):
    """By the agent that each request names."""
    links, zero = observed(FakeProxy(), changed_by("curl/8"))
    (found,) = links.observation(zero).contrary
    assert found.what == "curl/8 sent DELETE /proxies/a-b"
    assert found.at == pytest.approx(-1.0, abs=0.5)

    links, zero = observed(FakeProxy(), changed_by(SENDER))
    assert links.observation(zero).contrary == []


def test_a_proxy_that_was_restarted_or_forgot_changes_proves_nothing(observed):
    """What happened before is not known."""
    links, zero = observed(FakeProxy(), lambda proxy: setattr(proxy, "began", 2))
    assert "had been restarted" in links.observation(zero).contrary[0].what

    proxy = FakeProxy()
    links, zero = observed(proxy, changed_by(SENDER))
    proxy.changes = lambda since: {"began": 1, "now": 50.0, "count": 7, "changes": []}
    assert "7 changes are not listed any more" in links.observation(zero).contrary[0].what


def test_a_proxy_without_a_list_is_read_again_and_again(observed):
    """As the authors' image."""

    def cut(proxy):
        proxy.state = {"a-b": {"enabled": False}}

    links, zero = observed(FakeProxy(lists=False), cut)
    found = until(lambda: links.observation(zero).contrary)
    assert found[0].what == "the proxies of toxiproxy changed"


def test_a_change_that_the_lab_asked_for_meanwhile_is_its_own(observed):
    """Readings alone do not tell who changed what."""

    def cut(proxy):
        with requests_made.noted("POST", proxy.address):
            proxy.state = {"a-b": {"enabled": False}}

    proxy = FakeProxy(lists=False)
    links, zero = observed(proxy, cut)
    until(lambda: proxy.readings > 2)
    assert links.observation(zero).contrary == []


@pytest.mark.parametrize(("topology", "seen"), [("async", True), ("group", False)])
def test_where_a_replica_reads_from_is_asked_where_one_reads(monkeypatch, topology, seen):
    """A member of a group reads a log when it joins, and its sidecar shows its own address for that of the proxy."""
    asked = []
    monkeypatch.setattr("replication_lab.witnesses.servers.Sampled", lambda what, lab, readings: asked.extend(readings))
    paths(SimpleNamespace(topology=catalogue.topology(topology)))

    assert bool(asked) is seen
