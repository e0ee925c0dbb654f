"""Does `lab live` open a browser without its token on a command line, which every user of the machine can read?"""

import stat
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from replication_lab.cli import live as commands
from replication_lab.live import server
from replication_lab.world import catalogue

ADDRESS = "http://127.0.0.1:8000/#token=a-token-that-works-once"


@pytest.fixture
def opened(monkeypatch, runs):
    """View a lab that has ended; return what the desktop was asked to open, each with its file's text and mode."""

    @contextmanager
    def given(value):
        yield value

    view = SimpleNamespace(wait=lambda: None, end=lambda why: None, lab=SimpleNamespace(name="lab-semisync"))
    monkeypatch.setattr(commands, "_session", lambda **_: given(view))
    monkeypatch.setattr(server, "serving", lambda *_: given(ADDRESS))
    monkeypatch.setattr(commands, "has_desktop", lambda: True)
    found = []
    monkeypatch.setattr(
        "click.launch", lambda it: found.append((it, Path(it).read_text(), stat.S_IMODE(Path(it).stat().st_mode)))
    )
    return found


def test_the_browser_s_command_line_has_no_token(lab, opened):
    """It names a file that only its owner can read, which leads to the printed address and is gone at the end."""
    status, out, _ = lab("live")
    ((argument, text, mode),) = opened

    assert status == 0 and out.strip() == ADDRESS
    assert "token" not in argument and "http" not in argument
    assert f"url={ADDRESS}" in text and mode == 0o600
    assert [*catalogue.RUNS.iterdir()] == []


def test_without_a_browser_to_open_the_token_is_in_no_file(lab, opened):
    """It is in the printed address only."""
    status, out, _ = lab("live", "--no-open")

    assert status == 0 and out.strip() == ADDRESS
    assert opened == [] and not catalogue.RUNS.exists()
