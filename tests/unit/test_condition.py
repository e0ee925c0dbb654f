"""Is a condition that is written by number read strictly, and does it become the toxic that it describes?"""

from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.faults.link_proof import realised
from replication_lab.faults.toxic_calibration import calibrated, put
from replication_lab.faults.toxic_watch import toxic_on
from replication_lab.lab import up
from replication_lab.lab.status import called
from replication_lab.model.lab.condition import Condition, condition_of_body, parse_condition, parse_links
from replication_lab.model.lab.toxic import LINK_RATE
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink, FakeRoundTrip

# A text, its shortest spelling, and (ms down, ms up, ms of jitter, KB/s).
GOOD = [
    ("40ms", "40ms", (20, 20, 0, 0)),
    ("85ms", "85ms", (42, 43, 0, 0)),
    ("1ms", "1ms", (0, 1, 0, 0)),
    ("2000ms", "2000ms", (1000, 1000, 0, 0)),
    ("0.2s", "200ms", (100, 100, 0, 0)),
    ("2s", "2000ms", (1000, 1000, 0, 0)),
    ("40.0ms", "40ms", (20, 20, 0, 0)),
    ("040ms", "40ms", (20, 20, 0, 0)),
    ("40ms±5ms", "40ms±5ms", (20, 20, 5, 0)),
    ("40ms+-5ms", "40ms±5ms", (20, 20, 5, 0)),
    ("40ms±40ms", "40ms±40ms", (20, 20, 40, 0)),
    ("0.04s+-0.005s", "40ms±5ms", (20, 20, 5, 0)),
    ("40ms↓10ms↑30ms", "40ms↓10ms↑30ms", (10, 30, 0, 0)),
    ("40ms,down=10ms,up=30ms", "40ms↓10ms↑30ms", (10, 30, 0, 0)),
    ("40ms↓20ms↑20ms", "40ms", (20, 20, 0, 0)),
    ("40ms↓0ms↑40ms", "40ms↓0ms↑40ms", (0, 40, 0, 0)),
    ("40ms±8ms↓10ms↑30ms", "40ms±8ms↓10ms↑30ms", (10, 30, 8, 0)),
    ("40ms+-8ms,down=10ms,up=30ms", "40ms±8ms↓10ms↑30ms", (10, 30, 8, 0)),
    ("100mbit", "100mbit", (0, 0, 0, 12_500)),
    ("128kbit", "128kbit", (0, 0, 0, 16)),
    ("1544kbit", "1544kbit", (0, 0, 0, 193)),
    ("1.544mbit", "1544kbit", (0, 0, 0, 193)),
    ("1gbit", "1gbit", (0, 0, 0, 125_000)),
    ("1000mbit", "1gbit", (0, 0, 0, 125_000)),
    ("0.1gbit", "100mbit", (0, 0, 0, 12_500)),
    ("40ms+20mbit", "40ms+20mbit", (20, 20, 0, 2_500)),
    ("20mbit+40ms", "40ms+20mbit", (20, 20, 0, 2_500)),
    ("40ms±5ms+20mbit", "40ms±5ms+20mbit", (20, 20, 5, 2_500)),
    ("40ms+-5ms+20mbit", "40ms±5ms+20mbit", (20, 20, 5, 2_500)),
    ("40ms+-5ms,down=10ms,up=30ms+20mbit", "40ms±5ms↓10ms↑30ms+20mbit", (10, 30, 5, 2_500)),
]
# A text, and words of what is told about it.
BAD = [
    ("40", "40 has no unit"),
    ("40m", "unknown unit 'm'"),
    ("40MS", "unknown unit 'MS'"),
    ("40us", "unknown unit 'us'"),
    ("40µs", "unknown unit 'µs'"),
    ("40 ms", "cannot be read"),
    (" 40ms", "cannot be read"),
    ("40ms ", "cannot be read"),
    ("ms", "cannot be read"),
    ("", "cannot be read"),
    ("٤٠ms", "cannot be read"),
    ("4e1ms", "unknown unit 'e'|cannot be read"),
    ("40,5ms", "cannot be read"),
    ("-40ms", "cannot be read"),
    ("+40ms", "2 round trips"),
    ("0ms", "a round trip of 0 ms"),
    ("2001ms", "a round trip of 2001 ms"),
    ("40.5ms", "40.5ms is not a whole number of milliseconds"),
    ("0.0005s", "not a whole number of milliseconds"),
    ("40ms+20ms", "2 round trips"),
    ("10mbit+20mbit", "2 rates"),
    ("40ms+", "2 round trips"),
    ("40ms+20", "2 round trips"),
    ("40ms±", "cannot be read"),
    ("40ms±5", "5 has no unit"),
    ("40ms±0ms", "a jitter of 0 ms"),
    ("40ms±3ms", "a jitter of 3 ms"),
    ("40ms±41ms", "a jitter of 41 ms"),
    ("40ms±5mbit", "unknown unit 'mbit'"),
    ("40ms±5ms±5ms", "cannot be read"),
    ("40ms↓10ms", "cannot be read"),
    ("40ms↑30ms↓10ms", "cannot be read"),
    ("↓10ms↑30ms", "cannot be read"),
    ("40ms↓10ms↑20ms", "10 ms down and 20 ms up are 30 ms"),
    ("40ms,down=10ms,up=20ms", "are 30 ms"),
    ("40ms,jitter=5ms", "unknown unit|cannot be read"),
    ("40ms↓10ms↑30ms±5ms", "cannot be read"),
    ("100Mbit", "unknown unit 'Mbit'"),
    ("100mb", "unknown unit 'mb'"),
    ("100MB/s", "unknown unit 'MB/s'"),
    ("0mbit", "a rate of 0 KB/s"),
    ("120kbit", "a rate of 15 KB/s"),
    ("2gbit", "a rate of 250000 KB/s"),
    ("1000kbit+0ms", "a round trip of 0 ms"),
    ("loss1%", "loss1% cannot be read"),
    ("loss=2", "loss=2 cannot be read"),
    ("loss=2%,left", "cannot be read"),
    ("loss=0%", "a loss of 0 % is out of range"),
    ("loss=0.01%", "a loss of 0.01 % is out of range"),
    ("40ms+loss=51%", "a loss of 51 % is out of range"),
    ("loss=1%+loss=2%", "has 2 losses"),
    ("40ms+duplicate=0.05%", "a duplicate of 0.05 % is out of range"),
    ("duplicate=2%+reorder=51%", "a reorder of 51 % is out of range"),
    ("reorder=1%+40ms+reorder=2%", "has 2 reorders"),
    ("reorder=2", "reorder=2 cannot be read"),
    ("loss=1%+dup=0.5%", "dup=0.5% is written duplicate="),
    ("40ms+20mbit+corrupt=25%", "corrupt=25% is not made by the lab"),
    ("500.5kbit", "not a whole number of KB/s"),
    ("0.5mbit", "not a whole number of KB/s"),
    ("100mbit↓10ms↑20ms", "unknown unit 'mbit'"),
]


@pytest.mark.parametrize(("text", "name", "parts"), GOOD)
def test_a_good_text_is_read_and_has_one_shortest_spelling(text, name, parts):
    """The shortest spelling means the same, and so does the toxic that is put on a link."""
    found = parse_condition(text)
    toxic = found.toxic()

    assert found == Condition(*parts) == parse_condition(found.name)
    assert toxic.name == found.name == name
    assert (toxic.round_trip_ms, toxic.jitter_ms, toxic.rate_kbps) == (sum(parts[:2]), parts[2], parts[3] or None)


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_bad_text_is_refused_with_what_is_wrong(text, said, refused):
    """The text itself, what is wrong, what would be right, and the command that lists the forms."""
    error = refused(parse_condition, text)

    assert any(each in error.found for each in said.split("|")), error.found
    assert repr(text) in error.found
    assert error.next_step == "./lab toxic"


@pytest.mark.parametrize(("text", "name", "parts"), GOOD)
def test_bodies_are_what_toxiproxy_takes(text, name, parts):
    """Names of plain ASCII without a slash, for addresses; the delay before the rate; no delay below zero."""
    bodies = parse_condition(text).toxic().bodies
    kinds = [body.type for body in bodies]

    assert bodies and kinds == sorted(kinds, key=["latency", LINK_RATE].index)
    assert len({body.name for body in bodies}) == len(bodies)
    for body in bodies:
        assert body.name.isascii() and "/" not in body.name and " " not in body.name
        assert all(isinstance(value, int) for value in body.attributes.values())
        assert body.type == LINK_RATE or 0 <= body.attributes.get("jitter", 0) <= body.attributes["latency"]
        assert condition_of_body(body.name) == Condition(*parts)


@pytest.mark.parametrize("body", ["wan-85ms-down", "foreign", "40ms", "40ms-delay", "40m-delay-down", "40ms-dolay-up"])
def test_a_body_of_something_else_is_no_condition(body):
    """A named toxic's body, and one that somebody put there by hand."""
    assert condition_of_body(body) is None


def test_no_toxic_of_the_lab_is_called_like_a_condition(refused):
    """A name that is also a number would mean two things."""
    assert [name for name in catalogue.toxics() if not name[0].isalpha()] == []


def test_a_condition_stands_where_a_toxic_can(refused):
    """The same call returns both, and what is neither is told both ways."""
    error = refused(catalogue.toxic, "wan-40")

    assert catalogue.toxic("40ms").round_trip_ms == 40
    assert "one of black-hole" in error.expected and "or a condition such as 40ms" in error.expected
    assert "no unit" in refused(catalogue.toxic, "40").found


def test_the_shortest_round_trip_of_a_jitter_is_what_a_commit_has_waited_for():
    """It proves less than the typical one, and is never undone by chance."""
    shortest = {text: catalogue.toxic(text).shortest_trip_ms for text in ("40ms", "40ms±5ms", "40ms±40ms", "jitter")}

    assert list(shortest.values()) == [40, 35, 0, 65]


def test_what_is_on_a_link_is_called_as_it_was_written():
    """Of several conditions each is named, a foreign body stays as it is, and a part of one is none."""
    bodies = [body.name for text in ("40ms+-5ms", "wan-85ms", "20mbit") for body in catalogue.toxic(text).bodies]

    assert called([*bodies, "foreign"]) == ["wan-85ms", "20mbit", "40ms±5ms", "foreign"]
    assert called(["40ms-delay-up"]) == ["40ms-delay-up"]


def test_links_are_read_from_texts(refused):
    """One condition a link, and the equals signs of a condition are its own."""
    assert parse_links(["a-b=40ms", "b-a=40ms,down=10ms,up=30ms"]) == {"a-b": "40ms", "b-a": "40ms,down=10ms,up=30ms"}
    for text, said in (("a-b", "no equals sign"), ("a-b=", "no condition"), ("=40ms", "no link")):
        assert said in refused(parse_links, [text], "--toxic").found
    assert "a-b already has 40ms" in refused(parse_links, ["a-b=40ms", "a-b=50ms"], "--toxic").found


# --- calibrated and proved as a named one is --------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["40ms", "40ms±5ms", "40ms↓10ms↑30ms", "100mbit", "40ms+20mbit", "40ms±5ms+1gbit"])
def test_a_condition_is_calibrated_and_proved(text):
    """A link with it on does what is written, once calibrated; a link with nothing on it does not."""
    link, asked = FakeLink("source-replica"), catalogue.toxic(text)
    probe = FakeRoundTrip(link)
    # The fake link's answers take no time of their own, so that a rate is what is measured without a round trip.
    carried = link.kilobytes_per_second
    link.kilobytes_per_second = lambda: 8_000 / (8_000 / carried() + asked.round_trip_ms / 1000)
    before = realised(asked, probe)[1]
    calibrated(link, asked, probe)
    said, proved = realised(asked, probe)

    assert (before, proved) == (False, True), said


@pytest.mark.parametrize(
    ("text", "proxies", "said"),
    [
        ("40ms", ("a-b",), " ms (requested 40 ms); 0."),
        ("40ms+20mbit", ("a-b",), "KB/s up (requested 2500 KB/s) for all connections together; 0."),
        ("20mbit", ("a-b", "a-b-ist", "a-b-sst", "a-b-sql"), "for all connections together of its 4 ports; 0."),
    ],
)
def test_the_proof_of_a_rate_says_that_it_is_the_links(monkeypatch, text, proxies, said):
    """All ports of a link share one rate in each direction."""
    link: Any = FakeLink("a-b")
    link.model = SimpleNamespace(proxies=proxies, server="b")
    monkeypatch.setattr(up, "RoundTrip", lambda running, _lanes: FakeRoundTrip(running))
    lab: Any = SimpleNamespace(link=lambda _name: link, topology=SimpleNamespace(links=(), nodes=()))
    link.lab = lab
    (proof,) = up.set_toxics(lab, {"a-b": text})

    assert said in proof.found


@pytest.mark.parametrize(
    ("text", "said", "ok"),
    [
        ("none", "its proxy lists no toxic; not verified: b does not answer", True),
        ("40ms", "its proxy lists 40ms-delay-down, 40ms-delay-up; not verified: b does not answer", True),
        ("loss=2%", "2 % lost", True),
    ],
)
def test_a_link_is_changed_though_its_far_end_is_dead(text, said, ok, monkeypatch):
    """What cannot be measured is said so; what the kernel does to packets is measured all the same."""
    monkeypatch.setattr(up.packet_ability, "refuse_unable", lambda *_: None)
    link: Any = FakeLink("a-b")
    link.model = SimpleNamespace(proxies=("a-b",), server="b", echoes=False)
    put(link, catalogue.toxic("black-hole"))
    dead = SimpleNamespace(answers_soon=lambda: False)
    topology = SimpleNamespace(links=(), nodes=(SimpleNamespace(name="b"),))
    lab: Any = SimpleNamespace(link=lambda _name: link, topology=topology, node=lambda _name: dead)
    link.lab = lab
    (proof,) = up.set_toxics(lab, {"a-b": text})

    assert said in proof.found and proof.ok == ok
    assert not any("black-hole" in each.name for each in link.toxics())


def test_a_toxic_that_a_dead_ends_proxy_does_not_list_is_not_proved(monkeypatch):
    """The listing is all that there is to verify."""
    link: Any = FakeLink("a-b")
    link.model = SimpleNamespace(proxies=("a-b",), server="b", echoes=False)
    topology = SimpleNamespace(links=(), nodes=(SimpleNamespace(name="b"),))
    dead = SimpleNamespace(answers_soon=lambda: False)
    link.lab = lab = SimpleNamespace(link=lambda _name: link, topology=topology, node=lambda _name: dead)
    monkeypatch.setattr(link, "add", lambda _body: None)

    assert [proof.ok for proof in up.set_toxics(lab, {"a-b": "40ms"})] == [False]


def test_a_further_measurement_leaves_the_toxic_on_its_link(monkeypatch):
    """Clients of a lab in use would notice a moment without it."""
    link: Any = FakeLink("a-b")
    link.model = SimpleNamespace(proxies=("a-b",))
    monkeypatch.setattr(up, "RoundTrip", FakeRoundTrip)
    lab: Any = SimpleNamespace(link=lambda _name: link, topology=SimpleNamespace(links=()))
    asked = catalogue.toxic("40ms")
    calibrated(link, asked, FakeRoundTrip(link))
    monkeypatch.setattr(link, "remove", lambda name: pytest.fail(f"{name} was removed"))

    assert up._measured_there(lab, "a-b", asked, 0.0).ok


def test_several_links_are_refused_before_any_is_touched(refused):
    """The second text is wrong: the first link stays as it is."""
    lab = SimpleNamespace(link=FakeLink)

    assert "no unit" in refused(up.set_toxics, lab, {"a-b": "40ms", "b-a": "40"}).found


@pytest.mark.parametrize(
    ("narrow", "slow", "proved"), [(2_500, 40, True), (3_500, 40, False), (2_500, 20, False)], ids=str
)
def test_a_fault_that_is_slow_and_narrow_is_proved_by_both(conditioned, narrow, slow, proved):
    """A drill's toxic on top of what is there: either part alone is not it."""
    link = FakeLink("a-b", answers=None)
    fault = conditioned(link, toxic="40ms+20mbit")
    fault.inject()
    link.round_trip_ms = lambda: slow + 1.0
    link.sum_of_rates = lambda: narrow
    (proof,) = fault.verify()

    assert proof.ok is proved


def test_a_constant_delay_is_no_jitter():
    """The median is as asked, and the round trips do not differ."""
    link = FakeLink("source-replica")
    put(link, catalogue.toxic("40ms"))
    said, proved = realised(catalogue.toxic("40ms+-8ms"), FakeRoundTrip(link))

    assert not proved
    assert "requested 40 ms ± 8 ms" in said


@pytest.mark.parametrize(("acts", "seen"), [("40ms±16ms", True), ("40ms", False)])
def test_a_load_is_doubted_where_the_jitter_was_missing(acts, seen):
    """What is on the link delays as asked, and varies as asked or does not."""
    link = FakeLink("source-replica")
    with toxic_on(link, catalogue.toxic(acts), catalogue.toxic("40ms±16ms"), FakeRoundTrip(link)) as acting:
        pass

    assert acting.fault().seen is seen
    assert seen or "but with a jitter of 16 ms round trips were 41." in acting.fault().why
