"""Does another condition of a link act at once, is it proved, and does the link get back exactly what it had?"""

import pytest
from replication_lab.faults.condition import LinkCondition
from replication_lab.faults.toxic_calibration import exchange, put, replace_attributes
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.world import catalogue

from tests.fakes.lab import FakeLab
from tests.fakes.link import FakeLink

LINK = "source-replica"


@pytest.fixture
def link(fake_world):
    """Return a link of 85 ms in a lab of the fake world, and the lab."""
    lab = FakeLab(fake_world(), catalogue.topology("semisync"), "mariadb")
    put(lab.link(LINK), catalogue.toxic("wan-85ms"))
    return lab.link(LINK), lab


def wrong(proofs):
    return [proof.doubt for proof in proofs if proof.doubt]


@pytest.mark.parametrize("condition", ["200ms", "40ms", "none", "black-hole", "reset", "1mbit", "40ms±16ms"])
def test_a_condition_is_seen_and_gone_afterwards(link, condition):
    """In place of what the link had, not in addition to it."""
    found, lab = link
    before = found.toxics()
    fault = LinkCondition(lab, [LINK], condition)
    fault.inject()

    assert wrong(fault.verify()) == []
    fault.recover()
    assert wrong(fault.verify_recovered()) == []
    assert found.toxics() == before


@pytest.mark.parametrize(("condition", "says"), [("200ms", "85"), ("black-hole", "an answer came after")])
def test_a_condition_that_does_nothing_is_not_proved(link, monkeypatch, condition, says):
    """Sabotage: the toxics of the condition are there, but do not act."""
    _, lab = link
    fault = LinkCondition(lab, [LINK], condition)
    monkeypatch.setattr(FakeLink, "round_trip_ms", lambda _: 85.3)
    fault.inject()

    assert says in wrong(fault.verify())[0]


def test_a_condition_that_another_command_removed_is_not_proved(link):
    """Although a link without toxics answers as fast as one can wish."""
    found, lab = link
    fault = LinkCondition(lab, [LINK], "none")
    fault.inject()
    put(found, catalogue.toxic("campus-1ms"))

    assert "campus-1ms-down" in wrong(fault.verify())[0]


def test_a_toxic_that_came_back_with_another_delay_is_not_recovered(link):
    """Sabotage: the names are those of before, and the round trip is within the spread of a busy machine."""
    found, lab = link
    fault = LinkCondition(lab, [LINK], "200ms")
    fault.inject()
    fault.recover()
    body, *others = found.toxics()
    exchange(found, [replace_attributes(body, latency=body.attributes["latency"] + 5), *others])

    [doubt] = wrong(fault.verify_recovered())
    assert "latency=47" in doubt and "latency=42" in doubt


def test_a_slider_changes_a_condition_without_a_gap(link, monkeypatch):
    """The new toxics are added before the old ones are removed: no commit gets through in between."""
    found, lab = link
    fault, counts = LinkCondition(lab, [LINK]), []
    for name in ("add", "remove"):
        plain = getattr(FakeLink, name)
        monkeypatch.setattr(
            FakeLink, name, lambda link, what, plain=plain: (plain(link, what), counts.append(len(link.toxics())))
        )
    for condition in ("100ms", "200ms", "300ms"):
        fault.change(condition)

    assert min(counts) >= 2
    assert [toxic.attributes["latency"] for toxic in found.toxics()] == [150, 150]


def test_toxics_that_are_the_same_are_left_alone(monkeypatch):
    """Also where a calibration has changed a value: then that one is replaced."""
    link, told = FakeLink(LINK), []
    body = ToxicBody("a", "latency", "upstream", {"latency": 5})
    link.add(body)
    for name in ("add", "remove"):
        plain = getattr(FakeLink, name)
        monkeypatch.setattr(
            FakeLink, name, lambda link, what, plain=plain, name=name: (told.append(name), plain(link, what))
        )
    exchange(link, [body])
    assert told == []
    exchange(link, [ToxicBody("a", "latency", "upstream", {"latency": 6})])

    assert told == ["remove", "add"] and link.toxics()[0].attributes == {"latency": 6}


def test_a_connection_that_another_fault_ended_is_replaced_and_each_is_closed_once(link, monkeypatch):
    """A connection of MySQL's refuses to be closed twice, which would end the test that used the link."""
    _, lab = link
    closed = []
    fault = LinkCondition(lab, [LINK], "40ms")
    monkeypatch.setattr(type(fault.probes[LINK]), "close", lambda probe: closed.append(id(probe)))
    fault.inject()
    monkeypatch.setattr(fault.probes[LINK], "ping", lambda: None)

    assert wrong(fault.verify()) == []
    fault.close()
    assert len(closed) == len(set(closed)) == 2
