"""Is each command of README and of the book accepted as it is printed, and is it known where it is run?"""

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.world import catalogue
from replication_lab.world.docker import engine

from tests.pages import commands
from tests.records import golden

# The commands of adding.md need what the page builds: tests/meta/test_adding.py and tests/lab/test_adding.py.
TYPED = sorted({line for page, line in commands.of_lab() if page != "adding.md"})
# Those that write a file which another command reads.
SAVED = [line for line in TYPED if " --save " in line]
# Those that read records; the page of comparisons names a run by its day.
RECORDED = ("compare", "history", "report", "predict")
KEPT = "20261124-233146-semisync_wan"


class _Passed(Exception):
    """The command would now ask the Docker engine."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make a folder with the files that the pages name."""
    made = tmp_path_factory.mktemp("reader")
    commands.make_files(made)
    return made


@pytest.fixture
def typed(monkeypatch, folder):
    """Type a command in that folder; it ends where it would ask the Docker engine, or become root."""

    def passed(*_arguments, **_options):
        raise _Passed

    monkeypatch.chdir(folder)
    for name in ("ensure", "client", "run_as_root"):
        monkeypatch.setattr(engine, name, passed)
    monkeypatch.setattr("replication_lab.world.installing.run_as_root", passed)
    return lambda line: CliRunner().invoke(cli.cli, shlex.split(line)[1:], prog_name="lab")


@pytest.mark.parametrize("line", [line for line in TYPED if line.split()[1] not in RECORDED])
def test_a_command_is_not_refused(line, typed, runs):
    """It does its work, or passes everything that is checked before a lab is needed."""
    if line.endswith(".yaml"):
        for saving in SAVED:
            typed(saving)
    found = typed(line)

    assert found.exit_code == 0 or isinstance(found.exception, _Passed), f"{found.exception!r}{found.output}"


def test_commands_about_records_work_on_kept_ones(typed, runs, tmp_path, undrawn):
    """In the order of the pages; a baseline and a report are written before they are read."""
    run = golden.unpack("semisync_wan", tmp_path)
    for name in (KEPT, "20261125-120000-semisync_wan"):
        shutil.copytree(run, runs / name)
    for name in ("galera_vs_semisync", "replica_count"):
        golden.unpack(name, runs)
    for folder in ("figures", "baselines"):
        Path(folder).mkdir()
    # No two runs begin in the same millisecond.
    record = runs / KEPT / "record.jsonl"
    record.write_text(record.read_text().replace("2026-11-24T23:31:46.942", "2026-11-24T23:31:46.943", 1))
    (runs / "latest").symlink_to("20261125-120000-semisync_wan")
    lines = [line for line in TYPED if line.split()[1] in RECORDED]

    assert {line.split()[1] for line in lines} == set(RECORDED)
    for line in sorted(lines, key=lambda line: (" baselines/" in line.partition(" > ")[0], " --open" in line)):
        command, _, file = line.partition(" > ")
        if " baselines/" in command:
            # Another run than that of the baseline.
            (runs / "latest").unlink(missing_ok=True)
            (runs / "latest").symlink_to(KEPT)
        found = typed(command)
        if file:
            Path(file).write_text(found.stdout)
        # One run against an equal one shows nothing.
        assert found.exit_code == (3 if " compare " in command else 0), f"{line}: {found.exception!r}{found.output}"


def test_each_block_of_commands_is_run_by_a_test_or_says_why_not():
    """tests/pages/commands.yaml has a row for each block of each page, and no other."""
    rows, found = commands.rows(), commands.first_lines()

    assert {page: [row.first for row in rows[page]] for page in rows} == found
    assert [row.first for page in rows for row in rows[page] if len(row.ways) != 1] == []


def test_the_tests_that_are_named_exist():
    """A file that was renamed is seen."""
    named = {row.by for each in commands.rows().values() for row in each if row.by}

    assert sorted(name for name in named if not (catalogue.ROOT / name).is_file()) == []
