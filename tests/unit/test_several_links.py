"""Are links calibrated together, and the parts of a lab entered and left together?"""

import pytest
from msgspec import structs
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.record.measurement import SeenToxic, Spread
from replication_lab.runner.session import all_at_once, trips
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink
from tests.unit.synthetic_runs import tiny


def fault(link, low, middle, asked=85.0, unit="ms") -> SeenToxic:
    """Return a toxic whose shortest round trip was `low` and whose median was `middle`."""
    return SeenToxic(
        link=link, toxic="x", unit=unit, asked=asked, during=Spread(low, middle, middle + 9, 20), seen=True
    )


def test_links_of_one_length_have_a_common_round_trip():
    """The shortest of any link, and the median of the links' medians."""
    found = trips([fault("a", 84.2, 85.1), fault("b", 84.6, 85.3), fault("c", 84.4, 90.0)])

    assert found == {"rtt_min_ms": 84.2, "rtt_p50_ms": 85.3}


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [fault("a", 84, 85), fault("b", 199, 200, asked=200.0)],
        [fault("a", 84, 85), structs.replace(fault("b", 84, 85), during=None)],
    ],
)
def test_links_that_differ_have_no_common_round_trip(faults):
    """No link, links of different lengths, a link from which nothing came back: no figure that could mislead."""
    assert trips(faults) == {}


class Part:
    """A context that writes down what happens to it."""

    def __init__(self, told, name, fails=()):
        self.told, self.name, self.fails = told, name, fails

    def __enter__(self):
        if "enter" in self.fails:
            raise LabError(f"{self.name} cannot be entered", "an entry")
        return self.name

    def __exit__(self, *_):
        self.told.append(self.name)
        if "exit" in self.fails:
            raise LabError(f"{self.name} cannot be left", "a way out")


def test_parts_entered_at_once_are_all_left():
    """In the order in which they were given their values come, and after the block each has been left."""
    told = []
    with all_at_once([Part(told, "a"), Part(told, "b")]) as entered:
        assert (entered, told) == (["a", "b"], [])

    assert sorted(told) == ["a", "b"]


@pytest.mark.parametrize("where", ["enter", "exit"])
def test_a_part_that_fails_leaves_no_other_behind(where):
    """Sabotage: one part cannot be entered, or left; the others are left all the same, and the error is told."""
    told = []
    with pytest.raises(LabError, match="b cannot be"), all_at_once([Part(told, "a"), Part(told, "b", (where,))]):
        pass

    assert "a" in told


def test_the_interruption_of_a_block_leaves_its_parts():
    """Ctrl-C in the middle of a load takes the toxics off."""
    told = []
    with pytest.raises(KeyboardInterrupt), all_at_once([Part(told, "a")]):
        raise KeyboardInterrupt

    assert told == ["a"]


def test_a_calibration_does_not_chase_a_busy_machine(ran):
    """Round trips that were long for want of CPU do not make the link too short afterwards."""
    slow = {"on": False}

    def busy(lab, number):
        slow["on"] = number < 3

    plain = FakeLink.round_trip_ms

    def round_trip(link):
        found = plain(link)
        return found + 12 if slow["on"] and link._dice.random() < 0.7 else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeLink, "round_trip_ms", round_trip)
        _, record, _ = ran(tiny(least=3, most=4), meanwhile=busy)
    last = [fault for m in record.measurements if m.round == 3 for fault in m.faults]

    assert all(found.during.min > 82 for found in last)


@pytest.mark.parametrize(("written", "called"), [("0.04s", "40ms"), ("40ms+-16ms", "40ms±16ms")])
def test_a_case_may_spell_its_condition_in_any_way(ran, written, called):
    """It is calibrated, followed and recorded by its shortest spelling."""
    far = {"replication": "semisync", "wait_point": "AFTER_COMMIT"}
    toxics = {"source-replica": catalogue.toxic(written)}
    _, record, _ = ran(tiny(cases=[Case("written", "a condition by number", far, toxics=toxics)]))
    faults = [fault for m in record.measurements if m.case == "written" for fault in m.faults]

    assert {(fault.toxic, fault.asked) for fault in faults} == {(called, 40)}


def test_a_preset_that_names_an_unknown_case_is_refused(refused):
    """The nearest case is suggested."""
    error = refused(tiny, presets={"quick": Preset("quick", cases=("nine",))})

    assert "did you mean none?" in error.found
