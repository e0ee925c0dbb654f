"""Ctrl-C, SIGTERM and SIGHUP at any moment of any command: it removes what it started itself, and says how it ended."""

import random
import signal

import pytest
from replication_lab.world import clock, lab_files

from tests.lab.conftest import labs_of, read_until, things_of

SEED, EACH = 11, 4
# A command whose labs end with it, what it prints when it began, and how many seconds it takes after that at the least.
COMMANDS = {
    "up": (["up", "async", "--toxic", "source-replica=lan", "--lab"], "starting", 4),
    "up with disks": (["up", "async", "--storage", "raid0", "--disk-size", "1024", "--lab"], "starting", 8),
    "run": (["run", "semisync_wan"], "starts", 15),
    "ask": (["ask", "single", "--vary", "sync_binlog=0,1"], "starts", 15),
    "drill": (["drill", "single", "--drill", "kill", "--duration", "1"], "starting", 5),
    "soak": (["soak", "--topology", "single", "--duration", "1min"], "starting", 15),
    "live": (["live", "single", "--no-open", "--lab"], "starting", 15),
}
# Results until then are judged, and UNKNOWN: the status of a verdict.
RECORDED = {"run", "ask", "drill", "soak"}
ONCE = [("drill", signal.SIGHUP, 0), ("live", signal.SIGHUP, 0)]
LATER = [(name, number, turn) for name in COMMANDS for number in (2, 15, 1) for turn in range(EACH)]


@pytest.mark.parametrize(
    ("words", "number", "turn"),
    [*ONCE, *(pytest.param(*case, marks=pytest.mark.long) for case in LATER if case not in ONCE)],
)
def test_a_command_that_is_ended_leaves_nothing(start_command, name, words, number, turn):
    """No other command has to remove anything; containers, networks, volumes and files are looked for at once."""
    asked, begun, most = COMMANDS[words]
    number = signal.Signals(number)
    process = start_command(*asked, *([name] if asked[-1] == "--lab" else []))
    read_until(process, begun)
    clock.pause(random.Random(f"{SEED}:{words}:{number}:{turn}").uniform(0, most))
    made = {name} | labs_of(process)
    process.send_signal(number)
    said = process.stdout.read()

    assert "Traceback" not in said, said
    status = process.wait(60)
    if f"{name} is up." in said:
        # It had done all by then: a lab that is meant to stay.
        return
    # A drill may have been judged just before the signal came.
    if not (status == 0 and words in RECORDED and "(exit code 0)" in said):
        assert status == (3 if words in RECORDED and "record" in said else 128 + number), said
    assert {lab: things_of(lab) for lab in made} == {lab: [] for lab in made}
    assert [path.name for lab in made for path in lab_files.FOLDER.glob(f"{lab}.*")] == []
