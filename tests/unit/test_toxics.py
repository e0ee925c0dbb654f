"""Are toxics read strictly, put on whole, proved by what crosses the link, and taken off to the last body?"""

import json

import pytest
from replication_lab.faults.link_proof import realised
from replication_lab.faults.toxic_calibration import EXACT, WHOLE, calibrated, calibrated_and_measured, clear, put
from replication_lab.model.lab.toxic import parse_toxic
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink, FakeRoundTrip

BODY = {"name": "far", "type": "latency", "stream": "downstream", "attributes": {"latency": 42}}


def toxic_file(**changes) -> str:
    return json.dumps({"about": "a test's", "toxics": [{**BODY, **changes}]})


@pytest.fixture
def link() -> FakeLink:
    return FakeLink("source-replica")


def names(link) -> list[str]:
    return [body.name for body in link.toxics()]


# --- the files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", catalogue.toxics())
def test_every_toxic_of_the_lab_is_well_formed(name):
    """Each file parses, and says first of all what it is about."""
    text = (catalogue.TOXICS / f"{name}.json").read_text()

    assert catalogue.toxic(name).about.endswith(".")
    assert next(iter(json.loads(text))) == "about"


def test_the_toxics_promised_are_there():
    """LAN, two WANs, jitter, a slow line, a black hole and a reset."""
    assert {"lan", "wan-85ms", "wan-200ms", "jitter", "slow-100mbit", "black-hole", "reset"} <= set(catalogue.toxics())


def test_bodies_of_all_toxics_have_names_of_their_own():
    """No two toxics share a body's name, so that what sits on a link tells which toxic it is."""
    bodies = [body.name for name in catalogue.toxics() for body in catalogue.toxic(name).bodies]

    assert len(bodies) == len(set(bodies))


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("{", "toxics/x.json cannot be read", 'keys "about" and "toxics"'),
        ('{"about": "a", "toxics": [], "more": 1}', "unknown field `more`", 'keys "about" and "toxics"'),
        (toxic_file(latency=1), "unknown field `latency`", '"name", "type", "stream", "attributes"'),
        (
            toxic_file(type="latencyy"),
            "unknown toxic type in toxics/x.json 'latencyy'; did you mean latency?",
            "bandwidth",
        ),
        (toxic_file(attributes={"latencie": 1}), "unknown attribute of latency in toxics/x.json 'latencie'", "jitter"),
        (toxic_file(stream="sideways"), "far has stream 'sideways'", "upstream or downstream"),
        (toxic_file(attributes={"latency": 42.5}), "far has latency 42.5", "a whole number"),
        (toxic_file(attributes={"latency": -1}), "far has latency -1", "0 or more"),
        (toxic_file(type="bandwidth", attributes={"rate": -5}), "far has rate -5", "1 or more"),
        (toxic_file(type="bandwidth", attributes={"rate": 0}), "far has rate 0", "1 or more"),
        (toxic_file(toxicity=0), "far has toxicity 0", "more than 0 and at most 1"),
    ],
)
def test_a_bad_toxic_is_refused_with_what_was_found_and_expected(text, found, expected, refused):
    """Each mistake in a file names itself and what would be right."""
    error = refused(parse_toxic, "x", text)

    assert found in error.found
    assert expected in error.expected


def test_an_unknown_toxic_suggests_the_nearest(refused):
    """A mistyped name is answered with the one that was meant and the command that lists them."""
    error = refused(catalogue.toxic, "wan-85")

    assert "did you mean wan-85ms?" in error.found
    assert error.next_step == "./lab toxic"


def test_a_toxic_knows_what_it_does_to_a_link(latency):
    """Round trip and jitter add up over both ways; the narrower rate counts; silence and reset are told apart."""
    far = latency(42, 43, jitter=10)

    assert (far.round_trip_ms, far.jitter_ms, far.rate_kbps) == (85, 20, None)
    assert catalogue.toxic("slow-100mbit").rate_kbps == 12_500
    assert catalogue.toxic("black-hole").silences and not catalogue.toxic("black-hole").resets
    assert catalogue.toxic("reset").resets and not catalogue.toxic("reset").silences


# --- putting on and taking off ----------------------------------------------------------------------------------------


def test_put_replaces_what_is_there(link, latency):
    """One toxic after another: only the second remains."""
    put(link, latency(10, 10, "near"))
    put(link, latency(42, 43, "far"))

    assert names(link) == ["far-down", "far-up"]


def test_put_restores_what_was_there_when_refused(link, latency, refused):
    """A toxic that Toxiproxy refuses halfway leaves the link as it was, attributes included."""
    put(link, latency(10, 10, "near"))
    before = link.toxics()
    link.refused.add("far-up")
    with pytest.raises(Exception, match="refused the toxic far-up"):
        put(link, latency(42, 43, "far"))

    assert link.toxics() == before


def test_clear_takes_off_everything_of_its_link_only(latency):
    """Another link keeps its toxics."""
    one, other = FakeLink("one"), FakeLink("other")
    for each in (one, other):
        put(each, latency(42, 43))
    clear(one)

    assert (names(one), names(other)) == ([], ["far-down", "far-up"])


# --- calibration ------------------------------------------------------------------------------------------------------


class AdjustedLink(FakeLink):
    """A link whose round trip is off by `over` ms whenever a toxic acts on it; counts how often it is changed."""

    over, additions = 0.0, 0

    def add(self, body):
        super().add(body)
        self.additions += 1

    def round_trip_ms(self):
        return sum(body.attributes["latency"] for body in self.toxics()) + (self.over if self.toxics() else 0)


@pytest.mark.parametrize(("over", "latencies"), [(1.2, {42}), (3.0, {41}), (-2.0, {43, 44}), (0.3, {42, 43})])
def test_calibration_corrects_both_ways_and_stops(over, latencies, latency):
    """Both streams share the correction, up or down; the realised round trip is within 0.5 ms of it."""
    link = AdjustedLink("link")
    link.over = over
    result = calibrated(link, latency(42, 43), FakeRoundTrip(link))

    assert {body.attributes["latency"] for body in result.bodies} == latencies
    assert abs(link.round_trip_ms() - 85) <= 0.5
    assert link.additions <= 2 * 2, "a single correction is enough for a steady error"


def test_asking_on_one_link_and_answering_on_another_takes_the_same_round_trip(latency):
    """Members of a group do: were one direction alone corrected, such a trip would be twice the correction shorter."""
    link = AdjustedLink("link")
    link.over = 5.0
    there, back = (body.attributes["latency"] for body in calibrated(link, latency(42, 43), FakeRoundTrip(link)).bodies)

    assert abs(2 * there - (there + back)) <= 1


def test_a_correction_keeps_the_proportion_of_a_link_that_is_slower_one_way(latency):
    """Not the difference of its directions."""
    link = AdjustedLink("link")
    link.over = 3.0
    found = calibrated(link, latency(20, 80), FakeRoundTrip(link))

    assert [body.attributes["latency"] for body in found.bodies] == [19, 78]


def test_what_the_proxys_timers_usually_add_needs_no_second_measurement(latency):
    """The link is right as soon as its bodies are there: none of the two is added again."""
    link = AdjustedLink("link")
    link.over = 2.0
    calibrated(link, latency(42, 43), FakeRoundTrip(link))

    assert (link.round_trip_ms(), link.additions) == (85, 2)


@pytest.mark.parametrize("name", ["campus-1ms", "metro-10ms"])
def test_a_short_way_is_never_corrected_to_less(name):
    """What an idle proxy's timers add is gone under load; less than a millisecond would be nothing."""
    link = AdjustedLink("link")
    link.over = 1.2
    asked = catalogue.toxic(name)

    assert calibrated(link, asked, FakeRoundTrip(link)) is asked


@pytest.mark.parametrize("over", [0.1, 0.25, 0.4])
@pytest.mark.parametrize("asked_ms", [1, 2, 5, 10, 20, 40, 85, 300])
def test_exact_timers_realise_a_latency_within_a_twentieth_or_a_fifth_of_a_millisecond(asked_ms, over):
    """What the link and the proxy add is taken off, from a millisecond on; half of the latency always stays."""
    link, asked = AdjustedLink("link"), catalogue.toxic(f"{asked_ms}ms")
    link.over, link.latency_step_ms = over, 0.001
    found = calibrated(link, asked, FakeRoundTrip(link))

    assert found.round_trip_ms >= asked_ms / 2
    least = asked_ms / 2 + over
    assert abs(link.round_trip_ms() - max(asked_ms, least)) <= max(0.2, 0.05 * asked_ms)


@pytest.mark.parametrize("asked_ms", [2, 5, 10])
def test_a_busy_machine_shortens_an_exact_latency_by_no_more_than_the_link_and_the_proxy_take(asked_ms):
    """All round trips are 2 ms longer meanwhile; as soon as the machine is quiet they would be too short."""
    link, asked = AdjustedLink("link"), catalogue.toxic(f"{asked_ms}ms")
    link.over, link.latency_step_ms = 2.0, 0.001

    assert calibrated(link, asked, FakeRoundTrip(link)).round_trip_ms == pytest.approx(asked_ms - EXACT.added)


def test_a_moment_of_a_busy_machine_hardly_shortens_an_exact_latency():
    """The shortest round trip tells what the proxy adds; a median that is twice as long tells of the machine."""
    link, asked = AdjustedLink("link"), catalogue.toxic("10ms")
    link.over, link.latency_step_ms = 0.3, 0.001
    probe = FakeRoundTrip(link)
    probe.pings = lambda count=5: [link.round_trip_ms(), *[link.round_trip_ms() + 10] * 4]

    assert calibrated(link, asked, probe).round_trip_ms >= 9


def test_a_busy_machine_shortens_a_toxic_by_no_more_than_its_link_and_proxy_add(latency):
    """Ten milliseconds too many are the machine's, and would be missing as soon as it is quiet again."""
    link = AdjustedLink("link")
    link.over = 10.0
    result = calibrated(link, latency(42, 43), FakeRoundTrip(link))

    assert result.round_trip_ms == 85 - WHOLE.added


@pytest.mark.parametrize(("trips", "proved"), [([85, 95, 97], True), ([92, 95, 97], False), ([78, 85, 97], False)])
def test_the_shortest_round_trip_proves_a_latency(link, latency, trips, proved):
    """What a busy machine adds to most of them does not count; a link that is too short once is too short."""
    probe = FakeRoundTrip(link)
    probe.pings = lambda count=5: trips

    assert realised(latency(42, 43), probe)[1] is proved


def test_calibration_ends_also_when_it_cannot_succeed(latency):
    """A link that follows no setting is given up after a few tries; the evidence of each load will tell."""
    link = AdjustedLink("link")
    link.round_trip_ms = lambda: 200.0
    calibrated(link, latency(42, 43), FakeRoundTrip(link))

    assert link.additions <= 2 * 10


@pytest.mark.parametrize(("over", "measured"), [(2.0, [85.0] * 5), (3.0, [85.0] * 5), (0.3, [85.3] * 5)])
def test_a_calibration_returns_what_it_measured_after_its_last_change(latency, over, measured):
    """Round trips of a toxic that was then corrected prove nothing about the link."""
    link = AdjustedLink("link")
    link.over = over

    assert calibrated_and_measured(link, latency(42, 43), FakeRoundTrip(link))[1] == pytest.approx(measured)


@pytest.mark.parametrize("name", ["85ms+loss=2%", "lan", "black-hole"])
def test_a_calibration_that_ends_with_a_change_or_without_pings_measured_nothing(name):
    """The link is then measured afterwards."""
    link = FakeLink("link")

    assert calibrated_and_measured(link, catalogue.toxic(name), FakeRoundTrip(link))[1] == []


def test_a_link_that_follows_no_setting_was_not_measured_after_its_last_change(latency):
    """Each of the tries ends with a change."""
    link = AdjustedLink("link")
    link.round_trip_ms = lambda: 60.0

    assert calibrated_and_measured(link, latency(42, 43), FakeRoundTrip(link))[1] == []


def test_what_was_measured_proves_a_latency_and_no_jitter(link, latency):
    """A jitter needs more round trips than a calibration makes; those of a wrong link prove that it is wrong."""
    probe = FakeRoundTrip(link)

    assert realised(latency(42, 43), probe, measured=[85.2, 86])[1]
    assert not realised(latency(42, 43), probe, measured=[60, 61])[1]
    assert not realised(latency(42, 43, jitter=10), probe, measured=[78, 92])[1]


def test_jitter_is_not_calibrated(link, latency):
    """Where round trips differ on purpose one median says nothing about the setting."""
    jittery = latency(42, 43, jitter=10)

    assert calibrated(link, jittery, FakeRoundTrip(link)) is jittery


def test_a_dead_link_cannot_be_calibrated(link, latency, refused):
    """Where no answer there is an error that names the link."""
    link.cut()
    error = refused(calibrated, link, latency(42, 43), FakeRoundTrip(link))

    assert "link source-replica does not answer" in error.found


@pytest.mark.parametrize("name", catalogue.toxics())
def test_what_a_toxic_does_is_told_in_words(link, name):
    """A link with the toxic on it has the round trips of its file; a bare link has those of the LAN only."""
    toxic, probe = catalogue.toxic(name), FakeRoundTrip(link)
    assert realised(toxic, probe)[1] == (name == "lan")
    calibrated(link, toxic, probe)

    assert realised(toxic, probe)[1]


@pytest.mark.parametrize(("bare", "found", "near"), [(8.1, 5.0, True), (8.1, 10.5, True), (0.4, 5.0, False)])
def test_a_lan_adds_nothing_to_what_the_link_takes_without_a_toxic(link, bare, found, near):
    """An emulated machine answers late across any link; one that never answers sooner now is not on a LAN."""
    probe = FakeRoundTrip(link)
    # The machine is busy for most of the time.
    probe.pings = lambda: [found + 20, found, found + 30]

    assert realised(catalogue.toxic("lan"), probe, bare)[1] is near


def test_calibration_does_not_chase_a_busy_machine(latency):
    """Most round trips are long for want of CPU, the shortest is not: the link must not become too short for that."""

    class Busy(FakeLink):
        asked = 0

        def round_trip_ms(self):
            Busy.asked += 1
            return super().round_trip_ms() + (15 if Busy.asked % 5 else 0)

    link = Busy("source-replica")
    result = calibrated(link, latency(42, 43), FakeRoundTrip(link))

    assert result.round_trip_ms >= 82
