"""Are duplicated and reordered packets asked for in one spelling, and proved only by counters that tell so?"""

import pytest
from replication_lab.faults.link_proof import realised, realised_packets, said_of_packets
from replication_lab.faults.toxic_calibration import calibrated, exchange
from replication_lab.faults.toxic_watch import toxic_on
from replication_lab.model.lab.condition import condition_of_body, parse_condition
from replication_lab.model.lab.toxic import PACKET_REORDER, parse_toxic
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink, FakeRoundTrip

ASKED = catalogue.toxic("40ms+duplicate=2%+reorder=5%")
WAYS = ["duplicated down", "duplicated up", "late down", "late up"]


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "bodies"),
    [
        ("duplicate=1%", "duplicate=1%", ["duplicate-down", "duplicate-up"]),
        ("reorder=5.0%,up", "reorder=5%↑", ["reorder-up"]),
        (
            "reorder=5%,down+40ms,down=10ms,up=30ms+loss=1%+duplicate=2%,up",
            "40ms↓10ms↑30ms+loss=1%+duplicate=2%↑+reorder=5%↓",
            ["loss-down", "loss-up", "duplicate-up", "reorder-down"],
        ),
    ],
)
def test_effects_on_packets_are_read_and_have_one_shortest_spelling(text, name, bodies):
    """The names of their bodies are ASCII and lead back to the condition."""
    toxic = parse_condition(text).toxic()

    assert toxic.name == name and toxic == parse_condition(name).toxic()
    assert ["-".join(body.name.split("-")[-2:]) for body in toxic.of_packets] == bodies
    assert all(body.name.isascii() and condition_of_body(body.name).name == name for body in toxic.bodies)


def test_they_are_told_in_words():
    """What a reordered packet is, and of what each share is one."""
    assert (
        "5 % of the packets arrive 10 ms late, after packets that were sent meanwhile, in each direction" in ASKED.about
    )
    assert said_of_packets(ASKED) == "2 % of the packets duplicated and 5 % late"


# --- a file of toxics/ ------------------------------------------------------------------------------------------------

FILE = """{"about": "a.", "toxics": [{"name": "%s", "type": "%s", "stream": "upstream", "attributes": %s%s}%s]}"""
TWO = ', {"name": "y", "type": "packet_loss", "stream": "upstream", "attributes": {"percent": 1}}'


@pytest.mark.parametrize("kind", ["packet_loss", "packet_duplicate", "packet_reorder"])
def test_a_file_may_state_what_happens_to_packets(kind):
    """As a condition that has a name of its own."""
    found = parse_toxic("x", FILE % ("x-up", kind, '{"percent": 0.5}', "", ""))

    assert [(body.type, body.attributes["percent"]) for body in found.of_packets] == [(kind, 0.5)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("x-up", "packet_loss", '{"percent": 51}', "", ""), "has percent 51"),
        (("x-up", "packet_loss", '{"percent": 0.05}', "", ""), "has percent 0.05"),
        (("x-up", "packet_loss", '{"rate": 1}', "", ""), "has rate"),
        (("x-up", "packet_loss", "{}", "", ""), "has no attributes"),
        (("x-up", "packet_loss", '{"percent": 1}', ', "toxicity": 0.5', ""), "has toxicity 0.5"),
        (("x '; y", "packet_loss", '{"percent": 1}', "", ""), "other characters"),
        (("x-up", "packet_loss", '{"percent": 1}', "", TWO), "two of packet_loss upstream"),
        (("x-up", "packet_los", '{"percent": 1}', "", ""), "did you mean packet_loss?"),
    ],
)
def test_a_file_that_cannot_be_made_is_refused(refused, given, said):
    """Nothing is put on a link that the kernel would not do."""
    assert said in refused(parse_toxic, "x", FILE % given).found


def test_the_labs_own_file_loses_packets():
    """Its delay is Toxiproxy's, its loss the kernel's."""
    found = catalogue.toxic("lossy-wan")

    assert found.is_latency and found.round_trip_ms == 60
    assert [body.attributes["percent"] for body in found.of_packets] == [1, 1]


# --- proofs and their sabotage ----------------------------------------------------------------------------------------


def faulty():
    found = FakeLink("source-replica")
    calibrated(found, ASKED, FakeRoundTrip(found))
    return found


def test_effects_that_act_are_proved_beside_the_round_trip():
    """Each direction of each, with what was asked."""
    said, proved = realised(ASKED, FakeRoundTrip(faulty()))

    assert proved and "down 2 % duplicated (" in said and "up 5 % late (" in said
    assert said.endswith("(requested 2 % and 5 %)")


@pytest.mark.parametrize("percent", [0, 0.3, 20])
def test_a_netem_with_another_probability_is_seen(percent):
    """Sabotage: it is there under its name, and does it to another share of the packets, or to none."""
    found = faulty()
    found.loses = percent
    said, proved = realised_packets(ASKED, found)

    assert not proved and "not 2 %" in said and "not 5 %" in said


def during_a_load(meanwhile=lambda _: None, traffic=5000, overtakes=3):
    link = FakeLink("source-replica")
    link.traffic, link.overtakes = traffic, overtakes
    with toxic_on(link, ASKED, ASKED, FakeRoundTrip(link)) as acting:
        meanwhile(link)
    return acting.faults()[1:]


def test_a_load_is_recorded_with_what_was_asked_and_measured():
    """The packets of each direction, with interval and number."""
    found = during_a_load()

    assert [each.unit for each in found] == [f"% of packets {each}" for each in WAYS]
    assert all(each.seen for each in found) and found[2].during.n == 5000


@pytest.mark.parametrize(
    ("how", "at", "doubt"),
    [
        ({"meanwhile": lambda link: link.remove(ASKED.of_packets[0].name)}, 0, "that duplicates packets was removed"),
        ({"meanwhile": lambda link: link.remove(ASKED.of_packets[2].name)}, 2, "that reorders packets was removed"),
        ({"traffic": 200}, 0, "200 packets are too few to verify a duplication of 2 %; about 2000 are needed"),
        ({"traffic": 200}, 2, "200 packets are too few to verify a reordering of 5 %; about 800 are needed"),
        ({"overtakes": 0}, 2, "250 packets were late, but none was overtaken"),
    ],
)
def test_a_load_without_the_effect_is_in_doubt(how, at, doubt):
    """Sabotage, a load that is too small, and one that sends a packet at a time: UNKNOWN, never green."""
    found = during_a_load(**how)[at]

    assert not found.seen and doubt in found.doubt


def test_no_overtaking_is_asked_where_the_lab_does_not_look():
    """A project's own containers."""
    link = FakeLink("a")
    link.out_of_order = lambda _: None
    with toxic_on(link, ASKED, ASKED, FakeRoundTrip(link)) as acting:
        pass

    assert all(fault.seen for fault in acting.faults())


def test_a_drill_does_not_replace_an_effect_that_a_link_has(conditioned, refused):
    """Its recovery could not put it back; another kind is added."""
    link = faulty()

    assert "already has a reorder" in refused(conditioned(link, toxic="reorder=1%,up").inject).found
    conditioned(link, toxic="loss=1%,up").inject()


def test_another_condition_replaces_the_effects():
    """Those that are no longer asked for are removed."""
    link = faulty()
    exchange(link, catalogue.toxic("40ms+reorder=1%,down").bodies)

    assert [(body.type, body.stream) for body in link.of_packets()] == [(PACKET_REORDER, "downstream")]
