"""Is a record of any size judged in little memory, and are runs compared over time without reading them again?"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.model.drill.timeline import quantile
from replication_lab.model.record import record as records
from replication_lab.model.record.measurement import Ordered
from replication_lab.world import catalogue, journal

from tests.records import golden

KEPT = "semisync_wan"
# What a process that judges may use; Python, numpy and scipy take a third of it.
MOST_MIB = 300
# So many times the samples of the kept run are those of a load of ten minutes.
MOST_SAMPLES = 256
# Judges a run, and prints its exit code and the most memory that it used; not as a child of this process, whose
# memory would be counted.
JUDGE = """
import sys
from replication_lab import runs
print(runs.judge(sys.argv[1]).exit_code)
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def lengthened(folder: Path, mib: int) -> Path:
    """Make the record of a kept run that long, by repeating its samples and then its rounds; return its folder."""
    run = golden.unpack(KEPT, folder)
    short = (run / journal.RECORD).read_bytes()
    wanted = (mib << 20) * 5 // 4 // len(short) + 1
    times, again = min(wanted, MOST_SAMPLES), -(-wanted // MOST_SAMPLES)
    events = [json.loads(line) for line in short.splitlines()]
    measured = [event for event in events if event["event"] == "measurement"]
    most = max(event["round"] for event in measured)
    for event in measured:
        event["samples"] = {name: found * times for name, found in event["samples"].items()}
    with (run / journal.RECORD).open("wb") as file:
        for event in [event for event in events if event not in measured]:
            file.write(json.dumps(event).encode() + b"\n")
        for number in range(again):
            for event in measured:
                file.write(json.dumps(event | {"round": event["round"] + most * number}).encode() + b"\n")
    return run


def judged(run: Path) -> tuple[int, float]:
    """Judge a run in a process of its own: its exit code and its most memory in MiB."""
    done = subprocess.run([sys.executable, "-c", JUDGE, run], capture_output=True, text=True, check=True)
    code, kib = done.stdout.split()
    return int(code), int(kib) / 1024


@pytest.mark.whole
def test_memory_does_not_grow_with_a_record(tmp_path):
    """Ten times as many samples; a line is read at a time, and what a line holds is all that is added."""
    code, used = judged(lengthened(tmp_path / "small", 5))
    same, more = judged(lengthened(tmp_path / "large", 50))

    assert code == same
    assert more < used + 30 and more < MOST_MIB


@pytest.mark.long
def test_a_record_of_a_gigabyte_is_judged(tmp_path):
    """In at most 300 MiB."""
    run = lengthened(tmp_path, 1024)
    assert (run / journal.RECORD).stat().st_size >= 1 << 30

    assert judged(run)[1] < MOST_MIB


def test_samples_that_are_read_again_are_the_same(tmp_path, monkeypatch):
    """Sabotage of the place in the file would show here, also behind empty lines."""
    run = golden.unpack(KEPT, tmp_path)
    held = journal.read(run)[1].measurements
    (run / journal.RECORD).write_bytes((run / journal.RECORD).read_bytes().replace(b"\n", b"\n\n"))
    monkeypatch.setattr(records, "HELD", -1)
    again = journal.read(run)[1].measurements

    assert [dict(one.samples) for one in again] == [one.samples for one in held]
    assert not [one for one in again if isinstance(one.samples, dict)]
    assert again[0].samples.get("no such samples") is None


@pytest.mark.parametrize("seed", range(20))
def test_values_in_their_order_are_those_that_were_given(seed):
    """Each as often, and with the quantiles of all of them; also without any part, or with empty ones."""
    dice = np.random.default_rng(seed)
    parts = [list(dice.integers(0, 50, dice.integers(0, 60)) / 7) for _ in range(seed % 6)]
    ordered, every = Ordered(parts), sorted(value for part in parts for value in part)

    assert list(ordered) == every and len(ordered) == len(every)
    for share in (0, 0.5, 0.99, 1) if every else ():
        assert quantile(ordered, share) == pytest.approx(float(np.quantile(every, share)), abs=0.001)


# --- over time --------------------------------------------------------------------------------------------------------


@pytest.fixture
def reported(runs, tmp_path, undrawn):
    """Make a run under runs/ with a report; give its folder."""
    lengthened(runs, 2)
    running.report(KEPT)
    return catalogue.RUNS / KEPT


def read_by(act) -> int:
    """Return how many bytes this process reads from files while it acts."""

    def so_far() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("rchar")))

    before = so_far()
    act()
    return so_far() - before


def test_a_history_does_not_read_the_records(reported):
    """It reads what is kept of each run since its report; a record of a gigabyte costs as little."""
    size = (reported / journal.RECORD).stat().st_size
    running.digests()

    assert read_by(running.digests) < 100_000 < size


def test_a_run_without_a_report_is_read_once(reported):
    """As one that was killed, or of an older version."""
    (reported / running.DIGEST).unlink()
    size = (reported / journal.RECORD).stat().st_size

    assert read_by(running.digests) > size and read_by(running.digests) < 100_000


def edited_like_before(file):
    """Edit a record without a change of its size, and set its time of modification back."""
    found = file.stat()
    file.write_bytes(file.read_bytes())
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def copied_with_its_times(folder):
    """Put a copy in the place of a run, as an archive brings it."""
    shutil.move(folder, aside := folder.with_name("aside"))
    shutil.copytree(aside, folder)
    shutil.rmtree(aside)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / running.DIGEST).write_bytes(b"{"),
        lambda folder: (folder / running.DIGEST).write_bytes(b"[" * 100_000),
        lambda folder: (folder / running.DIGEST).write_bytes(b'{"made_from": "x", "digest": null}'),
        lambda folder: (folder / running.DIGEST).chmod(0o644),
        lambda folder: (folder / journal.RECORD).open("ab").write(b"\n"),
        lambda folder: edited_like_before(folder / journal.RECORD),
        copied_with_its_times,
    ],
)
def test_what_is_kept_of_another_record_is_not_used(reported, spoil):
    """The record went on, was edited or copied; the file is damaged, foreign or of another version: it is read."""
    before = running.digests()
    spoil(reported)

    assert read_by(running.digests) > (reported / journal.RECORD).stat().st_size
    assert running.digests() == before


def test_what_other_code_of_the_same_version_kept_is_not_used(reported, monkeypatch):
    """A developer changes the lab without a new version."""
    running.digests()
    monkeypatch.setattr(running, "_sources", lambda: [("report.py", 1, 1)])

    assert read_by(running.digests) > (reported / journal.RECORD).stat().st_size


def test_a_run_that_vanishes_while_the_history_is_read_is_left_out(reported, monkeypatch):
    """Another command removes it after the runs were listed."""
    listed = running.names()
    shutil.rmtree(reported)
    monkeypatch.setattr(running, "names", lambda: listed)

    assert running.digests() == []


def test_a_history_is_the_same_from_what_is_kept(reported):
    """By the command."""
    (reported / running.DIGEST).unlink()
    first, second = (CliRunner().invoke(cli.cli, ["history", "--json"]).output for _ in range(2))

    assert first == second and KEPT in first


def test_a_record_that_cannot_be_compared_is_read_once_as_well(runs):
    """Of drills, or damaged."""
    golden.unpack("drill-single", runs)
    (runs / "damaged").mkdir()
    (runs / "damaged" / journal.RECORD).write_bytes(b"nonsense\n\n" * 100_000)
    assert running.digests() == []

    assert read_by(running.digests) < 10_000


# --- hostile records --------------------------------------------------------------------------------------------------

HOSTILE = {
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "nested in an event": b'{"event":"run","settings":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    "a wrong type": b'{"event":"measurement","engine":7,"round":"one","case":[]}',
    "NaN": b'{"event":"measurement","engine":"a","round":NaN,"case":"b"}',
    "a huge number": b'{"event":"measurement","engine":"a","round":1,"case":"b","seconds":1' + b"0" * 400 + b"}",
    "NUL": b"\0" * 100,
    "no UTF-8": b'{"event":"end","why":"\xff\xfe"}',
    "no object": b"7",
}


@pytest.fixture
def hostile(runs):
    """Make a run whose record has this line in its middle."""

    def make(line):
        run = golden.unpack(KEPT, runs)
        lines = (run / journal.RECORD).read_bytes().splitlines(keepends=True)
        lines[5] = line + b"\n"
        (run / journal.RECORD).write_bytes(b"".join(lines))
        return run

    return make


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_line_that_is_none_is_one_error_with_file_and_line(hostile, lab, kind):
    """Status 3, and no traceback; the other runs are listed as before."""
    run = hostile(HOSTILE[kind])
    for command in (("report", KEPT, "--format", "text"), ("report", KEPT), ("history",), ("list", "runs")):
        status, _, said = lab(*command)
        assert "Traceback" not in said, said
        if KEPT in command:
            assert status == 2 and said.count("error:") == 1
            assert f"{run}/record.jsonl: line 6 of the record" in said


def directory(file):
    file.mkdir()


def pipe(file):
    import os

    os.mkfifo(file)


def unreadable(file):
    file.symlink_to(file)


@pytest.mark.parametrize("make", [directory, pipe, unreadable])
def test_what_is_no_file_is_refused_and_never_waited_for(hostile, lab, make):
    """In place of a record, of a ledger, of a summary."""
    run = hostile(b"")
    for name in (journal.RECORD, "summary.json", running.DIGEST):
        (run / name).unlink(missing_ok=True)
        make(run / name)

    of_the_run = (("report", KEPT, *how) for how in (("--format", "text"), (), ("--open",)))
    for command in (*of_the_run, ("history",), ("list", "runs")):
        status, _, said = lab(*command)
        assert "Traceback" not in said, said
        if KEPT in command:
            assert status == 2 and said.count("error:") == 1


@pytest.mark.parametrize("make", [directory, pipe, unreadable])
def test_a_ledger_that_is_no_file_makes_its_drill_unknown(runs, lab, make):
    """It is not waited for."""
    run = golden.unpack("drill-single", runs)
    ledger = next(run.glob("ledger-*"))
    ledger.unlink()
    make(ledger)

    status, out, said = lab("report", "drill-single", "--format", "text")
    assert status == 3 and "Traceback" not in said and "UNKNOWN" in out
