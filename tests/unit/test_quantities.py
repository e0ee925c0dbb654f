"""Do all options and files read durations, rates and counts in one grammar, and refuse others by one text?"""

import math

import pytest
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.quantity import COUNT, DURATION, RATE, duration_text, with_durations
from replication_lab.runner import drill_set

DRILL = """
topology: async
about: A replica is killed.
clients: {source: 1}
before: 500ms
steps:
  - {fault: kill, targets: [replica], seconds: 0.5min, also: [{fault: cut, targets: [source-replica], at: 1500ms}]}
expected:
  - {says: no row is lost, figure: lost, equals: 0}
"""


@pytest.mark.parametrize(
    ("text", "seconds"), [("3s", 3), ("3", 3), ("500ms", 0.5), ("2min", 120), ("1h", 3600), ("1.5s", 1.5), (" 2s ", 2)]
)
def test_a_duration_has_a_unit_or_is_seconds(text, seconds):
    """A number alone is what it was before there were units."""
    assert DURATION.parse(text, "--duration") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "2m", "3 s", "-1s", "1e3", "3S", "1h30min", "inf", "nan"])
def test_another_text_is_refused_with_the_option_the_value_and_the_form(text):
    """2m could be minutes or months; the error says how minutes are written."""
    with pytest.raises(LabError) as told:
        DURATION.parse(text, "--duration", 1, 60)

    assert str(told.value) == (
        f"--duration is {text!r}\nexpected: a duration such as 30s, 500ms, 2min or 1h, from 1s to 1min"
    )


@pytest.mark.parametrize(
    ("kind", "text", "limits", "found"),
    [
        (RATE, "200/s", (0, math.inf), 200),
        (RATE, "12000/min", (0, math.inf), 200),
        (RATE, "12000/m", (0, math.inf), 200),
        (RATE, "400.0", (0, math.inf), 400),
        (COUNT, "16", (1, 512), 16),
        (COUNT, "513", (1, 512), None),
        (COUNT, "1.0", (1, 512), None),
        (RATE, "200/d", (0, math.inf), None),
    ],
)
def test_rates_and_counts_are_read_in_the_same_way(kind, text, limits, found):
    """A rate without a unit is per second."""
    if found is None:
        with pytest.raises(LabError, match="is '"):
            kind.parse(text, "x", *limits)
    else:
        assert kind.parse(text, "x", *limits) == pytest.approx(found)


def test_a_duration_is_shown_in_its_largest_whole_unit():
    """As a user would write it."""
    shown = [duration_text(seconds) for seconds in (0.5, 3, 90, 120, 3600, 0, 1.5)]

    assert shown == ["500ms", "3s", "90s", "2min", "1h", "0s", "1500ms"]


def test_the_file_of_a_drill_takes_durations_with_units(tmp_path):
    """In each place where it has a time."""
    (tmp_path / "mine.yaml").write_text(DRILL)
    found = drill_set.read(tmp_path / "mine.yaml")

    assert (found.before, found.steps[0].seconds, found.steps[0].also[0].at) == (0.5, 30, 1.5)


def test_a_duration_in_a_file_that_cannot_be_read_names_the_file_and_the_key(tmp_path):
    """With the same form as an option."""
    (tmp_path / "mine.yaml").write_text(DRILL.replace("500ms", "2weeks"))
    with pytest.raises(LabError, match=r"before is '2weeks'") as told:
        drill_set.read(tmp_path / "mine.yaml")

    assert "mine.yaml" in told.value.found and "500ms, 2min or 1h" in told.value.expected


def test_the_file_of_a_question_takes_durations_with_units(tmp_path):
    """`max_minutes` has its own unit without one."""
    file = tmp_path / "question.yaml"
    file.write_text("topologies: [async]\nvary: {clients: ['1', '2']}\nseconds: 2min\nmax_minutes: 2h\n")
    asked = experiments.from_file(file).asked

    assert asked is not None and (asked.seconds, asked.max_minutes) == (120, 120)


def test_what_is_no_duration_is_not_touched():
    """A server's variable may have any name and text."""
    document = {"settings": {"x": "500ms"}, "steps": [{"seconds": 3}], "about": "2min"}

    assert with_durations(document, "a file") == document
