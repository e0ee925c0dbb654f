"""Is what was recorded what is read, whatever happened in between?"""

import math
import re

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import Doubt, End, Lines
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.record.record import Record, RunOpening, written

from tests.unit import synthetic
from tests.unit.synthetic import measurement, run, toxic


def lines(*events) -> list[bytes]:
    return list(written(events))


def test_a_record_reads_as_it_was_written():
    """Every kind of event survives the way through its line."""
    made = synthetic.record(2, ("mariadb",), Doubt(reason="why"), End(why="crashed", reason="x"))

    assert Record.parse(lines(*made.events)).events == made.events


def test_an_event_is_one_line():
    """A newline within a text does not break the line."""
    assert lines(End(why="crashed", reason="two\nlines"))[0].count(b"\n") == 1


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_dropped_and_remembered(cut):
    """After a SIGKILL in the middle of a line, all that came before is still there, and the record says so."""
    whole = lines(run(), measurement("none", 1))

    parsed = Record.parse([whole[0], whole[1][:cut]])

    assert parsed.torn
    assert parsed.events == (run(),)


def test_a_last_line_that_lacks_its_newline_only_is_kept():
    """A line that is complete but for its newline lost nothing."""
    first, last = lines(run(), End(why="decided"))

    parsed = Record.parse([first, last.rstrip()])

    assert not parsed.torn
    assert parsed.end == End(why="decided")


@pytest.mark.parametrize("newline", [b"\n", b""], ids=("lines with newlines", "lines without"))
def test_a_torn_line_in_the_middle_is_an_error_that_names_it(newline):
    """Damage anywhere but at the end is not passed over, however the lines were split."""
    first, torn, last = lines(run(), measurement("none", 1), End(why="decided"))

    with pytest.raises(LabError, match="line 2") as told:
        Record.parse([first, torn[:50] + newline, last])

    assert "sed -n 2p" in str(told.value)


def test_a_last_line_that_is_whole_but_wrong_is_an_error():
    """Only a line without its end counts as torn: a whole one of the wrong shape is damage."""
    with pytest.raises(LabError, match="line 2"):
        Record.parse([*lines(run()), b'{"event": "measurement"}\n'])


def test_unknown_fields_of_newer_records_are_ignored():
    """A newer version may add fields."""
    [line] = lines(End(why="decided"))
    line = line.replace(b'"why"', b'"mood":"good","why"')

    assert Record.parse([line]).end == End(why="decided")


def test_unknown_events_of_newer_records_become_doubts():
    """An event that this version cannot read may speak against the figures, so it is not passed over."""
    first, last = lines(run(), End(why="decided"))

    parsed = Record.parse([first, b'{"event":"earthquake"}\n', last])

    assert "earthquake" in parsed.doubts("mariadb")[0]


@pytest.mark.parametrize(("schema", "which"), [(8, "a newer"), (4, "an older"), (1, "an older")])
def test_the_schema_of_another_version_is_refused(schema, which):
    """An error that says what to do, not a guess; also where a line has another shape."""
    for other in (b'"preset"', b'"size"'):
        line = lines(run())[0].replace(b'"schema":7', b'"schema":%d' % schema).replace(b'"preset"', other)
        with pytest.raises(LabError, match=f"schema {schema}, that of {which} version") as told:
            Record.parse([line])
        assert "or measure again: ./lab list experiments" in told.value.next_step


WHOLE = lines(run(), measurement("none", 1), measurement("none", 2), End(why="decided"))
FIRST, ONE, TWO, LAST = WHOLE


@pytest.mark.parametrize(
    ("altered", "number"),
    [
        ([FIRST.replace(b'"seed":', b'"seed":1'), ONE, TWO, LAST], 1),
        ([FIRST, ONE.replace(b'"round":1', b'"round":3'), TWO, LAST], 2),
        ([FIRST, TWO, LAST], 2),
        ([FIRST, TWO, ONE, LAST], 2),
        ([FIRST, ONE, TWO, TWO, LAST], 4),
        ([FIRST, ONE, TWO, LAST.replace(b"decided", b"done")], 4),
        ([FIRST, ONE, re.sub(rb',"digest":"\w+"', b"", TWO), LAST], 3),
        ([re.sub(rb',"digest":"\w+"', b"", line) for line in WHOLE], 1),
    ],
    ids=["opening", "figure", "removed", "exchanged", "repeated", "last line", "without its digest", "without any"],
)
def test_an_altered_record_is_in_doubt_from_its_first_altered_line_on(altered, number):
    """What an editor changed or removed is found; no figure of such a record proves anything."""
    doubts = Record.parse(altered).doubts("mariadb")

    assert len(doubts) == 1
    assert doubts[0].startswith(f"line {number} of the record, or a line before it, was changed or removed")


def test_an_untouched_record_and_an_interrupted_one_are_not_in_doubt():
    """Not even one whose last line is torn, or lacks its newline."""
    for whole in (WHOLE, WHOLE[:2], [FIRST, ONE, TWO[:40]], [FIRST, ONE, TWO, LAST.rstrip()]):
        assert Record.parse(whole).doubts("mariadb") == []


def test_an_empty_record_says_what_is_missing():
    """A run killed before its first line has nothing to judge."""
    with pytest.raises(LabError, match="the record has no header"):
        _ = Record.parse([]).run


def test_noisy_rounds_do_not_count():
    """A round counts by its quiet measurement, also when a repetition came after a noisy one."""
    noisy = {"noise": Noise(quiet=False, why="steal 0.2")}
    record = Record(
        [
            run(),
            measurement("none", 1, figures={"throughput": 1.0}, **noisy),
            measurement("none", 1, figures={"throughput": 2.0}),
            measurement("none", 2, **noisy),
        ]
    )

    assert record.series("mariadb", "none", "throughput") == {1: 2.0}
    assert len(record.of("mariadb", "none")) == 3


def test_a_figure_that_could_not_be_computed_stays_visible():
    """NaN cannot be written as JSON; it comes back as NaN, not as a missing round."""
    parsed = Record.parse(lines(measurement("none", 1, figures={"throughput": math.nan})))

    assert math.isnan(parsed.series("mariadb", "none", "throughput")[1])


def test_a_fault_that_was_not_seen_is_a_doubt_with_the_figures():
    """The doubt says what was asked and what was found."""
    told = measurement("after-sync-85ms-1", 1, faults=[toxic(seen=False, during=0.4)]).reasons_to_doubt

    assert told == ["fault not seen: requested 85 ms of wan-85ms on link source-replica, found 0.4 ms during the load"]


def test_a_failed_proof_is_a_doubt_with_the_figures():
    """The doubt says what was expected and what was found."""
    proof = Proof(what="Rpl_semi_sync_master_no_tx", expected="+0", found="+3", ok=False)

    told = measurement("none", 1, proofs=[proof]).reasons_to_doubt

    assert told == ["Rpl_semi_sync_master_no_tx: expected +0, found +3"]


def test_a_doubt_about_one_engine_leaves_the_others_alone():
    """A doubt about the whole run concerns all engines, one about an engine only that one."""
    record = Record([run(), Doubt(engine="mysql-5.5", reason="one"), Doubt(reason="all")])

    assert record.doubts("mariadb") == ["all"]
    assert record.doubts("mysql-5.5") == ["one", "all"]


def test_a_longer_record_leaves_the_shorter_as_it_was():
    """A record in use does not change under its reader."""
    short = Record([run()])

    longer = short.plus(End(why="decided"))

    assert (len(short.events), len(longer.events)) == (1, 2)
    assert isinstance(longer.run, RunOpening)


@pytest.mark.parametrize(
    ("lines", "read", "torn"),
    [
        ([], [], False),
        ([b'{"a":1}\n', b"\n", b'{"a":2}\n'], [1, 3], False),
        ([b'{"a":1}\n', b'{"a":2}'], [1, 2], False),
        ([b'{"a":1}\n', b'{"a":'], [1], True),
        ([b'{"a":', b'{"a":2}\n'], [1, 2], False),
        ([b'{"a":1}\n', b'{"a":\n'], [1, 2], False),
    ],
    ids=("none", "an empty one", "a newline lacks", "torn", "damage in the middle", "damage with its newline"),
)
def test_every_record_and_ledger_leaves_out_only_a_last_line_that_was_cut_off(lines, read, torn):
    """Damage anywhere else is handed on, for the reader to refuse."""
    found = Lines(iter(lines))

    assert [number for number, _ in found] == read
    assert found.torn is torn


def test_a_proof_that_says_in_itself_what_was_expected_is_told_without_it():
    """What a lab is proved by when it comes up has the expectation in its name."""
    assert Proof("semi-sync is on", "0 replicas", False).doubt == "semi-sync is on: 0 replicas"
