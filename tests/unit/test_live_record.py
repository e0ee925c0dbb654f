"""Is what a viewer recorded kept line by line, and reported without a verdict?"""

import msgspec
import pytest
from replication_lab import runs as running
from replication_lab.live.recorder import Recorder
from replication_lab.live.tally import LoadTally
from replication_lab.model.core.event import End
from replication_lab.model.drill.history import Invoked, Outcome, StatementEnd, encode
from replication_lab.model.live.view import Acted, Second
from replication_lab.world import journal

from tests.fakes.live import LINK, FakeLive


class Shown:
    """A lab as far as a record describes it."""

    name, engine = "lab-semisync", "mariadb"

    class topology:
        name = "semisync"


@pytest.fixture
def recorder(runs):
    return Recorder(Shown, LoadTally())


def record_of(recorder, seconds=3):
    """Record some seconds of a scripted lab, in which a link is made slower and the source is killed."""
    lab, tally = FakeLive(), recorder._tally
    folder = recorder.begin(0.0, 4, 400.0)
    tally.write(encode(Invoked(1, 1, "source", 0.1, "")))
    tally.write(encode(StatementEnd(1, 0.2, Outcome.ACKNOWLEDGED)))
    for number in range(seconds):
        if number == 1:
            lab.change_link(LINK, "200ms")
        if number == 2:
            lab.act_on_node("source", "kill", None)
        recorder.note(lab.tick())
    recorder.end(lab.spans)
    return folder


def test_each_second_is_recorded_with_what_was_done(recorder):
    """And the ledger's lines beside the record."""
    folder = record_of(recorder)
    _, record = journal.read(folder)

    seconds = [each for each in record.events if isinstance(each, Second)]
    assert [each.sample.at for each in seconds] == [1, 2, 3]
    [acted] = [each for each in record.events if isinstance(each, Acted)]
    assert [span.label for span in acted.spans] == [f"{LINK} 200ms", "kill source"]
    assert isinstance(record.events[-1], End)
    assert len((folder / "ledger-live.jsonl").read_bytes().splitlines()) == 2


def test_one_record_at_a_time(recorder, refused):
    """After the end of one another may begin; without one there is none to end."""
    recorder.begin(0.0, 4, 400.0)
    assert "is being recorded" in refused(recorder.begin, 1.0, 4, 400.0).found
    assert recorder.end([]) is not None
    assert recorder.end([]) is None


def test_the_report_shows_what_was_seen_and_gives_no_verdict(recorder):
    """The charts of the page, each change with whether it was seen, and the sentences."""
    folder = record_of(recorder)
    _, [file] = running.report(str(folder))
    page = (folder / "report.html").read_text()

    assert file == str(folder / "report.html")
    assert "Observed, not judged" in page and "HOLDS" not in page
    assert all(
        part in page
        for part in (f"{LINK} 200ms", "kill source", "Commits a second, and their ceiling", "semi-sync ON", "<svg")
    )


def test_a_record_that_broke_off_is_reported(recorder):
    """As after a SIGKILL: the last line is torn."""
    folder = record_of(recorder)
    file = folder / "record.jsonl"
    file.write_bytes(file.read_bytes()[:-90])
    running.report(str(folder))

    assert "the run was killed" in (folder / "report.html").read_text()


def test_a_record_without_a_second_is_reported(recorder):
    """Begun and ended at once."""
    folder = recorder.begin(0.0, 4, 400.0)
    recorder.end([])
    running.report(str(folder))

    assert "0 seconds" in (folder / "report.html").read_text()


@pytest.mark.parametrize("act", [running.judge, running.digest_of, lambda run: running.rendered(run, "markdown")])
def test_it_has_no_verdict_and_is_compared_with_nothing(recorder, refused, act):
    """The message says what it is."""
    assert "of the live page" in refused(act, str(record_of(recorder))).found


def test_it_is_listed_without_a_verdict(recorder):
    """Beside the other runs."""
    folder = record_of(recorder)

    assert running.verdicts()[folder.name] == "not reported"
    assert msgspec.json.decode((folder / "record.jsonl").read_bytes().splitlines()[0])["event"] == "live"
