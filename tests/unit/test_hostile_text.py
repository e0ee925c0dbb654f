"""Does no text from elsewhere - a record, a server, a log, a file's name - do anything to the terminal?"""

import io
import json
import re
import signal
import sys
from collections import Counter
from contextlib import suppress

import click
import html5lib
import pytest
from junitparser import JUnitXml
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.cli import console
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.visible import visible
from replication_lab.world.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tests.records import golden

# Sets the window's title, clears the screen, shows what follows from right to left; also by a single character, and
# back to the beginning of the line.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eabc\x9b2J\x7f\r\u2066"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# What a record quotes: of servers, of the machine, of files and of errors.
QUOTED = {
    "says",
    "about",
    "because",
    "version",
    "reason",
    "system",
    "cpu",
    "docker",
    "found",
    "what",
    "text",
    "why_not",
}
RUNS = {"ask_topologies": "record.jsonl", "semisync_wan": "record.jsonl", "drill-semisync-3": "record.jsonl"}


def made_hostile(part, key="", hostile=HOSTILE):
    """Return a part of a record with the characters in every text that is quoted, and in every setting."""
    if isinstance(part, dict):
        quotes = key == "environment" or (key == "settings" and "sync_binlog" in part)
        return {
            name: made_hostile(value, "says" if quotes and isinstance(value, str) else name, hostile)
            for name, value in part.items()
        }
    if isinstance(part, list):
        return [made_hostile(each, key, hostile) for each in part]
    return part + hostile if isinstance(part, str) and key in QUOTED else part


def unpacked(name, runs, hostile):
    """Return the folder of a recorded run that somebody else has changed."""
    folder = golden.unpack(name, runs)
    file = folder / RUNS[name]
    lines = [made_hostile(json.loads(line), hostile=hostile) for line in file.read_text().splitlines()]
    lines[-1] = {**lines[-1], "why": "crashed", "reason": hostile}
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


@pytest.fixture
def hostile_runs(runs):
    """Return the names of recorded runs that somebody else has changed; their names are hostile, too."""
    found = {}
    for number, name in enumerate(RUNS):
        folder = unpacked(name, runs, HOSTILE)
        found[name] = f"2030010{number}-120000-{name}-{HOSTILE.replace('/', '')}"
        folder.rename(runs / found[name])
    return found


def harmless(said):
    """Return the text, checked to hold no character that a terminal obeys, and the others in their escaped form."""
    text = "".join(said[1:])
    assert OBEYED.findall(text) == []
    return text


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize(
    "command",
    [
        ("report", "RUN", "--format", "text"),
        ("report", "RUN", "--json"),
        ("report", "RUN", "--format", "markdown"),
        ("report", "RUN", "--format", "github"),
        ("report", "RUN", "--format", "junit"),
        ("report", "RUN", "--format", "csv"),
        ("compare", "RUN", "RUN"),
    ],
    ids=" ".join,
)
def test_a_foreign_record_does_nothing_to_the_terminal(lab, hostile_runs, command, name):
    """Its escape sequences are shown as text."""
    said = lab(*(hostile_runs[name] if part == "RUN" else part for part in command))

    assert harmless(said)


@pytest.mark.parametrize("name", RUNS)
def test_what_a_foreign_record_says_is_shown_escaped(lab, hostile_runs, name):
    """A reader sees that it is hostile."""
    assert "\\u001b]0;owned\\u0007" in harmless(lab("report", hostile_runs[name], "--json"))
    assert "\\u202eabc" in harmless(lab("report", hostile_runs[name], "--format", "text"))


@pytest.mark.parametrize(
    "command", [("list", "runs"), ("history",), ("report", "RUN"), ("report", HOSTILE), (HOSTILE,)]
)
def test_the_name_of_a_run_does_nothing_to_the_terminal(lab, hostile_runs, undrawn, command):
    """Nor does one that does not exist, or a command."""
    said = lab(*(hostile_runs["semisync_wan"] if part == "RUN" else part for part in command))

    assert harmless(said)


def test_data_stay_the_same_data(lab, hostile_runs):
    """JSON is escaped as JSON."""
    found = json.loads(lab("report", hostile_runs["ask_topologies"], "--json")[1])

    assert HOSTILE in found["crashed"]


def raise_(error):
    raise error


def a_table():
    table = Table(HOSTILE)
    table.add_row(HOSTILE, Text(HOSTILE))
    return table


@pytest.mark.parametrize(
    "act",
    [
        lambda: click.echo(HOSTILE),
        lambda: click.echo(HOSTILE, err=True),
        lambda: print(HOSTILE),
        lambda: sys.stderr.write(HOSTILE),
        lambda: console.out.print(HOSTILE),
        lambda: console.out.print(HOSTILE, markup=False),
        lambda: console.tell(HOSTILE),
        lambda: console.print_json({"text": HOSTILE}),
        lambda: console.out.print(a_table()),
        lambda: raise_(LabError(HOSTILE, HOSTILE, HOSTILE)),
        lambda: raise_(RuntimeError(HOSTILE)),
        lambda: raise_(click.UsageError(HOSTILE)),
        lambda: raise_(click.ClickException(HOSTILE)),
        lambda: raise_(KeyboardInterrupt(HOSTILE)),
    ],
)
def test_no_way_of_printing_lets_a_character_through(act, capsys, monkeypatch):
    """No command can forget it: what it prints leaves through one door."""
    monkeypatch.setattr(sys, "argv", ["says"])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with suppress(SystemExit):
        cli.main(click.Command("says", callback=act))
    said = capsys.readouterr()

    assert OBEYED.findall(said.out + said.err) == []
    assert "\\u001b]0;owned" in said.out + said.err


def test_the_colours_and_movements_of_the_lab_itself_arrive(monkeypatch):
    """On a terminal, also while a view is drawn again and again: Rich then prints through a stream of its own."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stdout", cli.streams.Visible(written))
    screen = Console(force_terminal=True, width=100, color_system="standard", legacy_windows=False)
    with Live(Text(HOSTILE, style="red"), console=screen, auto_refresh=False) as live:
        live.refresh()
        print(HOSTILE)
        live.update(Text(HOSTILE, style="green"), refresh=True)
    shown = written.getvalue()

    for own in ("\x1b[?25l", "\x1b[?25h", "\x1b[31m", "\x1b[32m", "\x1b[2K"):
        assert own in shown and visible(own) not in shown
    assert "owned\x07" not in shown and "\x1b[2J" not in shown and "\u202e" not in shown
    assert shown.count("\\u202eabc") >= 2


# --- files that others read -------------------------------------------------------------------------------------------

MARKUP = "</script><script>alert(1)</script></title><img src=x onerror=alert(1)>\"'><b onclick=alert(1)>"


@pytest.mark.parametrize("name", RUNS)
def test_a_page_has_no_element_of_a_foreign_record(runs, name):
    """Neither in its text and pictures nor in the data of its scripts."""
    elements = []
    for hostile in ("", MARKUP):
        page = running.rendered(str(unpacked(name, runs / str(bool(hostile)), hostile)), "html")
        tree = html5lib.parse(page, treebuilder="dom")
        elements.append([each.tagName for each in tree.getElementsByTagName("*")])
        attributes = [dict(each.attributes.items()) for each in tree.getElementsByTagName("*")]

        assert [each for each in attributes if any(name.startswith("on") for name in each)] == []
        assert ("onerror" in page) == bool(hostile), "the text is not on the page at all"
    assert Counter(elements[0])["script"] == Counter(elements[1])["script"]
    assert "img" not in elements[1]


@pytest.mark.parametrize("name", RUNS)
def test_a_test_system_can_read_what_a_foreign_record_says(hostile_runs, name):
    """XML has no control characters."""
    assert JUnitXml.fromstring(running.rendered(hostile_runs[name], "junit").encode())
