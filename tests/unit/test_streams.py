"""Is a command's output whole, or its end quiet or told, where the terminal is narrow, plain, full or gone?"""

import os
import pty
import re
import subprocess
import sys

import pytest
from replication_lab.cli import COMMANDS

LAB = [sys.executable, "-m", "replication_lab"]
ESCAPE = b"\x1b"
# Commands that print tables, prose and JSON, without Docker.
PRINTING = [("list",), ("list", "drills"), ("--help",), ("drill",), ("list", "--json")]
WORDS = re.compile(r"[^\W_]{4,}")

pytestmark = pytest.mark.whole


def printed(*arguments, to=subprocess.PIPE, unbuffered=False, **environment):
    """Type a command whose standard output leads to `to`: its CompletedProcess."""
    buffered = {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [*LAB, *arguments], stdout=to, stderr=subprocess.PIPE, check=False, env={**kept, **buffered, **environment}
    )


def at_a_terminal(*arguments, columns=80, **environment):
    """Return what a command prints at a terminal of that width."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*LAB, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment},
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
    except OSError:
        # The terminal closes when the command ends.
        pass
    os.close(ours)
    assert process.wait() == 0, seen
    return seen


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("words", PRINTING[::2], ids=" ".join)
def test_an_output_that_nobody_reads_ends_the_command_quietly(words, unbuffered):
    """Of `lab list | head -1`: no traceback, and the status is that of SIGPIPE, never that of a verdict."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = printed(*words, to=writing, unbuffered=unbuffered)
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("words", PRINTING[::2], ids=" ".join)
def test_an_output_that_is_full_is_one_error(words, unbuffered):
    """Otherwise half a summary would look like a whole one."""
    with open("/dev/full", "wb") as full:
        ended = printed(*words, to=full, unbuffered=unbuffered)

    assert ended.returncode == 2
    assert ended.stderr.decode().startswith("error: standard output cannot be written: No space left on device\n")
    assert b"Traceback" not in ended.stderr and b"Exception ignored" not in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_status(closed):
    """As of a service that starts a command without any; a file must not get the stream's number."""
    for words, status in (("list", 0), ("list nonsense", 2)):
        ended = subprocess.run(
            ["sh", "-c", f"{' '.join(LAB)} {words} {closed}"], capture_output=True, check=False, stdin=subprocess.PIPE
        )
        assert ended.returncode == status, ended.stderr
        assert b"Traceback" not in ended.stderr


def test_remarks_without_a_reader_do_not_end_a_command():
    """A terminal that was closed must not stop what a command has still to do: here it writes its error and status."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([*LAB, "list", "nonsense"], stdout=subprocess.PIPE, stderr=writing, check=False)
    os.close(writing)

    assert ended.returncode == 2


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_no_escape_sequence_is_printed_where_none_is_wanted(words):
    """With NO_COLOR, and at a terminal that has none; at others there are some, so that this test can fail."""
    assert ESCAPE not in at_a_terminal(*words, NO_COLOR="1")
    assert ESCAPE not in at_a_terminal(*words, TERM="dumb")


def test_there_are_escape_sequences_at_other_terminals():
    """Sabotage of the test above."""
    assert ESCAPE in at_a_terminal("list")


@pytest.mark.parametrize("words", PRINTING[:-1], ids=" ".join)
def test_no_word_is_lost_in_a_narrow_terminal(words):
    """40 columns: a table that does not fit is printed a row after the other."""
    wide, narrow = (at_a_terminal(*words, columns=columns, NO_COLOR="1").decode() for columns in (400, 40))

    assert "…" not in narrow.replace("if …?", "")
    joined = "".join(narrow.split())
    assert [word for word in WORDS.findall(wide) if word not in joined] == []


def test_every_command_is_in_the_help_of_a_narrow_terminal():
    """And the text goes on below the name."""
    said = at_a_terminal("--help", columns=40).decode()

    assert [name for name, found in COMMANDS.items() if "module" in found and name not in said] == []
