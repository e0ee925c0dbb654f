"""A disk that gets full: what was recorded stays readable and is judged, one error says where and how much is free."""

import os
import resource
import subprocess
from contextlib import suppress

import pytest
from replication_lab import runs as running
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.history import Outcome, parse
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, files, journal

from tests.fakes import troubles
from tests.unit.synthetic_drill import recorded
from tests.unit.synthetic_runs import at, tiny

KIB = 1024


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return the folder runs/ on a file system of 200 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], check=False).returncode
    if mounted:
        pytest.skip("only root can make a file system of its own; a limit on the size of files is tested below")
    monkeypatch.setattr(catalogue, "RUNS", disk / "runs")
    yield disk / "runs"
    subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.fixture
def short_files(tmp_path):
    """Return a folder in which no file gets longer than 10 KiB: what a quota does, and possible for every user."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10 * KIB, before[1]))
    yield tmp_path
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(folder, left=0):
    """Fill a file system, but for so many bytes."""
    with suppress(OSError), open(folder.parent / "other", "ab", buffering=0) as other:
        while True:
            other.write(b"x" * KIB)
    os.truncate(folder.parent / "other", (folder.parent / "other").stat().st_size - left)


def test_a_run_whose_disk_gets_full_keeps_and_judges_what_it_recorded(small, fake_world, undrawn, refused):
    """One error; the measurements until then can be read and judged, and no part of a file is left."""
    world = fake_world(meanwhile=at(4, lambda *_: fill(small)))
    error = refused(lambda: running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _: None, world))
    folder, record = journal.read("latest")

    assert f"{folder}/" in error.found and "cannot be written: No space left on device" in error.found
    assert f"the file system {small.parent} has 0.0 of 0.2 MiB free" in error.found
    assert len(record.measurements) >= 3 and not record.torn
    assert Verdict.UNKNOWN in {claim.verdict for claim in running.judge("latest").claims}
    # The line that tells of the error may still fit.
    assert running.judge("latest").exit_code == (2 if record.crashed else 3)
    assert record.doubts("mariadb") == []
    assert world.taken_down == ["mariadb"]
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_report_on_a_full_disk_is_one_error_and_leaves_the_old_one(small, fake_world, undrawn, lab):
    """As long as the record can be read it can be judged; only what writes needs space."""
    running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _: None, fake_world())
    before = (small / "latest" / "summary.json").read_bytes()
    fill(small)

    status, _, said = lab("report", "latest")
    assert status == 2 and said.count("cannot be written: No space left on device") == 1 and "Trace" not in said
    assert (small / "latest" / "summary.json").read_bytes() == before
    assert lab("report", "latest", "--format", "text")[0] == 3, "the experiment has more claims than the run has cases"


def test_a_run_that_cannot_begin_its_record_is_one_error(small, fake_world, refused):
    """There is nothing to report then, and that error is the one that is told."""
    small.mkdir()
    fill(small)
    world = fake_world()

    found = refused(lambda: running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _: None, world)).found
    assert "No space left on device" in found and world.came_up == []


@pytest.mark.parametrize("sync", [False, True])
def test_a_line_that_does_not_fit_leaves_no_part(short_files, refused, sync):
    """The lines before it stay, and a shorter one that fits is written after it."""
    lines = files.LineByLine(short_files / "lines")
    lines.write(b"a" * 6 * KIB + b"\n", sync)
    found = refused(lines.write, b"b" * 6 * KIB + b"\n", sync).found
    lines.write(b"c\n", sync)
    lines.close()

    assert f"{short_files / 'lines'} cannot be written: File too large" in found
    assert (short_files / "lines").read_bytes() == b"a" * 6 * KIB + b"\nc\n"


def test_a_plain_file_is_torn_by_such_a_line(short_files):
    """Sabotage: the reason why lines are written in this way."""
    with suppress(OSError), (short_files / "lines").open("ab", buffering=0) as plain:
        plain.write(b"a" * 6 * KIB + b"\n")
        plain.write(b"b" * 6 * KIB + b"\n")

    assert (short_files / "lines").stat().st_size == 10 * KIB


@pytest.mark.parametrize("write", [files.write_whole, files.write_for_user])
def test_a_file_is_written_whole_or_not_at_all(short_files, refused, write):
    """The old one stays, and no temporary file."""
    write(short_files / "state", b"old")
    assert "File too large" in refused(write, short_files / "state", b"x" * 11 * KIB).found

    assert [(path.name, path.read_bytes()) for path in short_files.iterdir()] == [("state", b"old")]


def test_a_crash_on_a_full_disk_tells_the_crash(small, fake_world, undrawn):
    """That its last line does not fit is no reason to hide it."""

    def fill_and_crash(lab, number):
        fill(small)
        troubles.crash(lab, number)

    with pytest.raises(ZeroDivisionError):
        running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), print, fake_world(meanwhile=at(2, fill_and_crash)))


# --- ledgers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def book(runs):
    yield from recorded(runs)


def judged(book):
    return drill_set.results(*journal.read(book.folder))[0]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[:-20], "the ledger breaks off in the middle of a line"),
        (lambda text: text[:-20] + b"\n", "of the ledger cannot be read"),
        (lambda text: text[:400] + b"\0\0\0\n" + text[400:], "of the ledger cannot be read"),
        (lambda text: text + b"[" * 100_000, "the ledger breaks off in the middle of a line"),
        (lambda text: text + b"[" * 100_000 + b"\n\n", "of the ledger cannot be read"),
        (lambda text: text + b'{"event":"ended","id":\xff}\n\n', "of the ledger cannot be read"),
    ],
)
def test_a_ledger_is_judged_up_to_its_damage_and_nothing_of_the_drill_holds(book, damage, said):
    """What clients saw before is shown; that nothing was lost cannot be said of statements that are not known."""
    whole, file = judged(book), journal.ledger(book.folder, "first")
    file.write_bytes(damage(file.read_bytes()))
    found = judged(book)

    assert {one.verdict for one in whole.judgements} == {Verdict.HOLDS}
    assert {one.verdict for one in found.judgements} == {Verdict.UNKNOWN}
    assert said in found.doubts[0]
    assert 0 < found.figures["acknowledged"] <= whole.figures["acknowledged"]


def test_a_statement_whose_end_is_torn_has_an_unknown_outcome():
    """It was sent, so its row may be there."""
    sent = b'{"event":"invoked","id":1,"client":1,"node":"a","at":0.5,"wall":"t"}\n'
    found = parse([sent, b'{"event":"ended","id":1'])

    assert [attempt.outcome for attempt in found.attempts] == [Outcome.UNKNOWN] and found.damage
