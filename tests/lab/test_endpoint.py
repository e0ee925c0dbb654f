"""Clients behind HAProxy on real servers: it follows the node that is writable, and no figure is made past it."""

import subprocess
from threading import Thread

import pytest
from replication_lab import replication
from replication_lab.lab import endpoints
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.history import parse
from replication_lab.runner import behind, drill_set
from replication_lab.runner.drill import DrillRequest
from replication_lab.world import clock
from replication_lab.world.mysql.client import ApplicationClient

from tests.conftest import ignoring_noise
from tests.lab.test_drills import surprises

SETTINGS = {"inter": 300, "fall": 2, "rise": 1, "max_lag": 2}
FIRST, *MORE = [
    ("semisync-3", "lose-source-and-link"),
    ("async", "lose-source"),
    ("semisync", "read-before-loss-after-sync"),
    ("chain", "kill-relay"),
    ("fanout", "lose-source"),
    ("galera", "kill-node"),
    ("group", "kill-node"),
]


@pytest.fixture(scope="module")
def labs(docker):
    """Return the labs of a drill at the endpoint, by topology and name; they are removed at the end."""
    known = {}

    def of(topology, name):
        drill = drill_set.load(topology, name).at_endpoint("haproxy", SETTINGS)
        if topology not in known:
            for other in known.values():
                other.renew()
            known[topology] = drill_set.Labs(drill_set.lab_request(topology, _engine(topology), [drill]), print)
        return known[topology], drill

    yield of
    for own in known.values():
        own.renew()


def _engine(topology):
    return "mysql-8.0" if topology == "group" else "mariadb"


def drilled(labs, topology, name, tmp_path):
    own, drill = labs(topology, name)
    with ignoring_noise():
        evidence = own.do(DrillRequest(drill, 7), tmp_path / "ledger")
    with (tmp_path / "ledger").open("rb") as lines:
        history = parse(lines).attempts
    return drill_set.judged_as_found(evidence, tmp_path / "ledger"), history


@pytest.mark.parametrize(("topology", "name"), [FIRST, *(pytest.param(*pair, marks=pytest.mark.long) for pair in MORE)])
def test_a_drill_at_an_endpoint_comes_out_as_its_file_says(labs, topology, name, tmp_path):
    """Every acknowledgement tells its server; who takes over is reached by the same address."""
    result, history = drilled(labs, topology, name, tmp_path)
    met = result.evidence.endpoint

    assert surprises(result) == {} and result.doubts == []
    assert all(one.server in met.servers for one in history if one.acknowledged)
    assert any("is DOWN" in one.what for one in met.told) and any("is UP" in one.what for one in met.told)
    assert result.figures["rto_s"] > 0


@pytest.mark.long
def test_a_client_past_the_endpoint_makes_everything_unknown(labs, tmp_path, monkeypatch):
    """It writes to the source itself, as with a wrong address; each row is acknowledged and none is lost."""
    own, drill = labs("async", "lose-source")
    source = own.lab().node("source").server().as_application()
    monkeypatch.setattr(behind.Behind, "client", lambda self, _name: ApplicationClient(source.another, self._note))
    with ignoring_noise():
        evidence = own.do(DrillRequest(drill, 7), tmp_path / "ledger")
    result = drill_set.judged_as_found(evidence, tmp_path / "ledger")

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert any("past the endpoint" in doubt for doubt in result.doubts)


@pytest.mark.long
def test_a_container_of_the_endpoint_that_others_pause_makes_everything_unknown(labs, tmp_path):
    """Its time is not that of the servers: the witness of containers sees it as it sees the nodes'."""
    own, drill = labs("async", "lose-source")
    proxy = own.lab().endpoint.service.container.name

    def meddle():
        clock.pause(2)
        for act in ("pause", "unpause"):
            subprocess.run(["docker", act, proxy], check=True, capture_output=True)

    meddler = Thread(target=meddle)
    meddler.start()
    with ignoring_noise():
        evidence = own.do(DrillRequest(drill, 7), tmp_path / "ledger")
    meddler.join()
    result = drill_set.judged_as_found(evidence, tmp_path / "ledger")

    assert any("haproxy" in doubt for doubt in result.doubts)


@pytest.mark.long
def test_reads_go_to_nodes_that_are_current_enough_and_writes_to_the_one_that_is_writable(labs):
    """A replica that stopped is not read; a source that became read-only gets no writes; both come back."""
    own, _ = labs("async", "lose-source")
    lab = own.lab()
    endpoint, source, replica = lab.endpoint, lab.node("source").server(), lab.node("replica").server()

    def shows(reads, writes):
        def now():
            up = {side: {node for node, at in nodes.items() if at == "UP"} for side, nodes in endpoint.states().items()}
            return up == {"reads": reads, "writes": writes}

        clock.wait_until(now, f"reads at {reads}, writes at {writes}", 20, every=0.1)

    shows({"source", "replica"}, {"source"})
    replica.execute("STOP SLAVE")
    shows({"source"}, {"source"})
    replica.execute("START SLAVE")
    shows({"source", "replica"}, {"source"})
    source.set_global(read_only=1)
    shows({"replica"}, set())
    source.set_global(read_only=0)
    shows({"source", "replica"}, {"source"})
    assert {proof.ok for proof in endpoints.prove(lab)} == {True}
    assert replication.of(lab).written_at() == "source"
