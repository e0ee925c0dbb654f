"""Is each condition of a question's drill proved on its lab?"""

import pytest
from replication_lab import experiments
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.model.question.question import Question
from replication_lab.runner import asked_drills
from replication_lab.world import catalogue
from replication_lab.world.mysql.semisync import SemiSync, SemiSyncStatus

from tests.fakes.link import FakeLink, FakeRoundTrip
from tests.fakes.parts import LabOfNames, let_the_server_answer


def link_with(toxics: list[str], trip: float = 40.0) -> FakeLink:
    """Return a link with toxics of these names, which are not calibrated, and with this round trip."""
    link = FakeLink("source-replica")
    for name in toxics:
        link.add(ToxicBody(name, "latency", "upstream", {"latency": 20}))
    link.round_trip_ms = lambda: trip
    return link


class HeldLab(LabOfNames):
    """A lab whose source waits, or not."""

    topology = catalogue.topology("semisync")

    def __init__(self, running, semisync=(True, "AFTER_SYNC")):
        self.running, self.semisync = running, semisync

    def link(self, _name):
        return self.running

    def server(self, _name):
        return self

    def status(self):
        active, point = self.semisync
        return SemiSyncStatus(True, active, 1, 0, 0, 0, point, 10_000)


WAN = [body.name for body in catalogue.toxic("40ms").bodies]


@pytest.mark.parametrize(
    ("running", "toxic", "semisync", "wrong"),
    [
        (link_with(WAN), "40ms", (True, "AFTER_SYNC"), []),
        (link_with(WAN, 90), "40ms", (True, "AFTER_SYNC"), []),
        (link_with([]), "40ms", (True, "AFTER_SYNC"), ["link source-replica is 40ms"]),
        (link_with(WAN, 12), "40ms", (True, "AFTER_SYNC"), ["link source-replica is 40ms"]),
        (link_with(["slow"]), "lan", (True, "AFTER_SYNC"), ["link source-replica is lan"]),
        (link_with([]), "lan", (False, "AFTER_SYNC"), ["commits wait for a replica"]),
        (link_with([]), "lan", (True, "AFTER_COMMIT"), ["commits wait for a replica"]),
    ],
)
def test_each_condition_of_a_drill_is_proved(running, toxic, semisync, wrong, monkeypatch):
    """The sabotages: a toxic that is missing or without effect, an unrequested toxic, another wait point.

    A link that clients use may be slower than requested.
    """
    monkeypatch.setattr(asked_drills, "RoundTrip", FakeRoundTrip)
    let_the_server_answer(monkeypatch, SemiSync, status="status")
    asked = Question(topologies=["semisync"], drill="lose-source", settings={"wait_point": "AFTER_SYNC"})
    drill = asked_drills.planned(experiments.asked(asked), "mariadb")[0].drill
    held = asked_drills.Held(
        HeldLab(running, semisync), drill, {"source-replica": catalogue.toxic(toxic)}, lambda _nodes: []
    )

    assert [proof.what for proof in held.proofs(["source", "replica"]) if not proof.ok] == wrong
