"""Does today's code find in recorded runs what was found when they were made?"""

import json

import pytest

from tests import kept
from tests.records import golden

# Each kept record is judged again.
pytestmark = pytest.mark.whole

MADE = [path for path in kept.PAGES if path == kept.FAULTS or kept.PART.search(path.read_text())]


@pytest.mark.parametrize("name", golden.names())
def test_a_recorded_run_is_judged_as_it_was_judged_when_it_was_made(name):
    """Every verdict, figure and interval is the same; tests/records/README.md says what to do where one is not."""
    assert golden.differences(golden.expected(name), golden.unworded(kept.judged(name))) == []


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.stem)
def test_a_page_has_the_figures_of_its_kept_records(path):
    """Else: make figures. It is in this file since the records are judged once for both."""
    assert path.read_text() == kept.page(path), "make figures"


def test_every_kept_record_has_something_decided():
    """A record of which nothing but UNKNOWN is said would stay the same whatever the code does."""
    kept = {name: golden.expected(name) for name in golden.names()}
    verdicts = {
        name: [one for drill in found for one in drill["verdicts"]] if isinstance(found, list) else found["claims"]
        for name, found in kept.items()
    }

    assert len(kept) > 10
    assert not [name for name, found in verdicts.items() if {one["verdict"] for one in found} <= {"UNKNOWN"}]


def test_a_changed_figure_of_an_experiment_is_noticed(tmp_path):
    """One measured figure that is a thousandth larger changes what is judged."""
    run = golden.unpack("semisync_wan", tmp_path)
    lines = (run / "record.jsonl").read_text().splitlines()
    at, event = next(
        (at, event)
        for at, event in enumerate(map(json.loads, lines))
        if event["event"] == "measurement" and event["noise"]["quiet"]
    )
    event["figures"]["latency_p50_ms"] *= 1.001
    lines[at] = json.dumps(event)
    (run / "record.jsonl").write_text("\n".join(lines) + "\n")

    found = golden.differences(golden.expected("semisync_wan"), golden.judged(run))

    assert found
    assert any("latency_p50_ms" in line for line in found)


def test_a_row_that_is_missing_from_a_ledger_is_noticed(tmp_path):
    """One answer that a client has not had changes what is judged of a drill."""
    run = golden.unpack("drill-semisync-3", tmp_path)
    ledger = run / "ledger-cut-one-link.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    answer = next(at for at, line in enumerate(lines) if b'"acknowledged"' in line)
    ledger.write_bytes(b"".join(lines[:answer] + lines[answer + 1 :]))

    found = golden.differences(golden.expected("drill-semisync-3"), golden.judged(run))

    assert any(line.startswith("[0].figures.acknowledged:") for line in found)


@pytest.mark.parametrize(
    ("before", "today"),
    [
        pytest.param({"figure": 1.0}, {"figure": 1.0 + 1e-8}, id="another figure"),
        pytest.param({"figure": 1.0}, {"figure": None}, id="no figure"),
        pytest.param({"figure": 1.0}, {"figure": 1.0, "more": 2}, id="one figure more"),
        pytest.param({"figure": 1.0, "more": 2}, {"figure": 1.0}, id="one figure less"),
        pytest.param([1, 2], [1], id="one drill less"),
        pytest.param({"changed": False}, {"changed": 0}, id="another kind of value"),
        pytest.param({"verdict": "HOLDS"}, {"verdict": "UNKNOWN"}, id="another verdict"),
    ],
)
def test_a_difference_is_told(before, today):
    """Whatever differs is one line that says where, what it was and what it became."""
    assert len(golden.differences(before, today)) == 1


def test_a_sum_taken_in_another_order_is_no_difference():
    """Floating point gives the last digits of a sum by its order."""
    assert golden.differences({"sum": 0.1 + 0.2 + 0.3}, {"sum": 0.3 + 0.2 + 0.1}) == []
