"""How does a run of drills end: as expected, stopped, crashed or kept, once or several times?"""

import msgspec
import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab import runs as running
from replication_lab.model.core.event import LabCameUp
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.history import Invoked, StatementEnd, encode
from replication_lab.report import DrillsSummary
from replication_lab.report.drill_text import text
from replication_lab.runner import drill_set

from tests.unit.synthetic_drill import HISTORY, Upped, evidence, junit_of, parsed


@pytest.fixture
def drilling(monkeypatch, runs):
    """Do the drills "first" and "second" on labs that are none, what happens in the second one given: (labs, run)."""
    labs, drills = [], [msgspec.structs.replace(parsed(), name=name) for name in ("first", "second")]

    def up(*_, **__):
        labs.append(Upped())
        return labs[-1]

    def run(second=lambda: None, keep=False, doubts=()):
        def run_drill(_lab, asked, ledger, _tell):
            what = asked.drill
            if what.name == "second":
                second()
            with ledger.open("wb") as file:
                for one in HISTORY:
                    file.write(encode(Invoked(one.id, 1, one.node, one.invoked, "t")))
                    file.write(encode(StatementEnd(one.id, one.ended, one.outcome)))
            return evidence(drill=what, doubts=list(doubts))

        monkeypatch.setattr(drill_set, "run_drill", run_drill)
        return running.drill("galera", "mariadb", drills, 7, lambda _: None, keep=keep)

    monkeypatch.setattr(drill_set.docker_engine, "ensure", lambda: None)
    monkeypatch.setattr(drill_set.described, "environment", lambda: {"cpus": 2})
    monkeypatch.setattr(drill_set, "_came_up", lambda _: LabCameUp(engine="mariadb", version="11.8", topology="galera"))
    monkeypatch.setattr(drill_set.up, "up", up)
    monkeypatch.setattr(drill_set.up.lab_files, "save_state", lambda *_: setattr(labs[-1], "stays", True))
    return labs, run


def stop(signal="SIGTERM"):
    raise KeyboardInterrupt(signal)


FILES = {"record.jsonl", "ledger-first.jsonl", "summary.json", "junit.xml", "report.html"}


def names_in(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_run_of_drills_leaves_what_a_run_of_an_experiment_leaves(drilling, runs):
    """Record, summary, JUnit and page in a folder that `latest` points at; judged again it is the same."""
    labs, run = drilling
    folder, summary = run()

    assert names_in(folder) == FILES | {"ledger-second.jsonl"}
    assert (runs / "latest").resolve() == folder
    assert (summary.exit_code, summary.ended, [drill.exit_code for drill in summary.drills]) == (0, "done", [0, 0])
    assert running.judge("latest") == summary
    assert msgspec.json.decode((folder / "summary.json").read_bytes(), type=DrillsSummary) == summary
    assert [lab.gone for lab in labs] == [True]
    assert summary.environment.labs[0].version == "11.8"


def test_interrupted_drills_are_reported_like_an_interrupted_experiment(drilling):
    """The first one's verdicts stay, the second one is unknown, status 2; the lab is gone, nothing is raised."""
    labs, run = drilling
    folder, summary = run(stop)
    first, second = summary.drills

    assert (summary.exit_code, summary.ended, summary.interrupted) == (3, "interrupted", "SIGTERM")
    assert {row.verdict for row in first.expectations} == {Verdict.HOLDS}
    assert {row.verdict for row in second.expectations} == {Verdict.UNKNOWN}
    assert second.doubts == ["it was not run: interrupted by SIGTERM"]
    assert names_in(folder) == FILES and [lab.gone for lab in labs] == [True]
    assert running.judge(folder.name) == summary
    assert junit_of(summary).errors == 1


def test_drills_that_crash_are_reported_and_the_error_is_raised(drilling, runs):
    """Status 3 in the report and from the judge; the lab is gone."""
    labs, run = drilling
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 / 0)
    summary = running.judge("latest")

    assert (summary.exit_code, summary.verdict) == (2, "CRASHED")
    assert summary.crashed == "ZeroDivisionError: division by zero"
    assert names_in((runs / "latest").resolve()) == FILES and [lab.gone for lab in labs] == [True]
    assert junit_of(summary).errors == 2, "the drill that was not done, and the crash"


def test_the_lab_of_a_drill_that_failed_is_left_up_where_asked_for(drilling):
    """The drills after it are not done, and say why."""
    labs, run = drilling
    _, summary = run(keep=True, doubts=["node3 did not come back"])

    assert [(lab.gone, lab.stays) for lab in labs] == [(False, True)]
    assert summary.drills[1].doubts == ["it was not run: --keep left drill-galera-1 up"]
    assert (summary.exit_code, summary.ended) == (3, "kept")


def test_the_lab_of_a_crash_is_left_up_where_asked_for(drilling):
    """The error is raised all the same."""
    labs, run = drilling
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 / 0, keep=True)

    assert [(lab.gone, lab.stays) for lab in labs] == [(False, True)]


def test_drills_that_did_not_fail_leave_nothing_up(drilling):
    """All as expected, or stopped by their user."""
    labs, run = drilling
    run(keep=True)
    run(stop, keep=True)

    assert [(lab.gone, lab.stays) for lab in labs] == [(True, False)] * 2


@pytest.mark.parametrize(
    ("codes", "options", "seeds", "status"),
    [
        ([0, 0, 0], ["--runs", "3"], [7, 8, 9], 0),
        ([0, 3, 1], ["--runs", "3", "--seed", "20"], [20, 21, 22], 1),
        ([0, 3, 1], ["--runs", "3", "--keep"], [7, 8], 3),
        ([2], [], [7], 2),
    ],
)
def test_drills_are_repeated_with_other_seeds(drilling, monkeypatch, codes, options, seeds, status):
    """Each run has a record; the status is the worst; with --keep the first that fails is the last."""
    folder, good = drilling[1]()
    asked, left = [], list(codes)

    def drill(*arguments, **_):
        asked.append(arguments[3])
        return folder, msgspec.structs.replace(good, exit_code=left.pop(0))

    monkeypatch.setattr(running, "drill", drill)
    said = CliRunner().invoke(cli.cli, ["drill", "galera", "--drill", "kill-node", *options])

    assert (asked, said.exit_code) == (seeds, status)
    repeated = f"{sum(code == 0 for code in codes)} of {len(seeds)} runs came out as expected"
    assert (repeated in said.output) is ("--runs" in options)


def test_repeated_drills_are_a_list_as_data(drilling, monkeypatch):
    """Of one run it is its summary alone."""
    found = drilling[1]()
    monkeypatch.setattr(running, "drill", lambda *_, **__: found)
    typed = ["drill", "galera", "--drill", "kill-node", "--json"]
    once, twice = (CliRunner().invoke(cli.cli, [*typed, *more]).stdout for more in ([], ["--runs", "2"]))

    assert msgspec.json.decode(twice) == [msgspec.json.decode(once)] * 2


def test_a_name_that_is_none_leaves_no_folder(runs, refused):
    """What cannot be had is refused before anything starts."""
    assert "did you mean mariadb" in refused(running.drill, "galera", "mariadbb", [parsed()], 7, print).found
    assert not runs.exists()


def test_a_killed_run_is_never_green(drilling):
    """Also where each of its drills had been done: nothing says that all came to its end."""
    folder, _ = drilling[1]()
    record = folder / "record.jsonl"
    *lines, end = record.read_bytes().splitlines(keepends=True)
    assert b'"end"' in end
    record.write_bytes(b"".join(lines))
    summary = running.judge(folder)

    assert {row.verdict for row in summary.judged} == {Verdict.HOLDS}
    assert (summary.exit_code, summary.ended) == (3, None)
    assert junit_of(summary).errors == 1
    assert "the run was killed" in text(summary)


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_the_command_tells_what_the_drills_came_to(drilling, monkeypatch, arguments):
    """On standard output, with the status of the summary; where the files are on standard error."""
    done = drilling[1]()
    monkeypatch.setattr(running, "drill", lambda *_, **__: done)
    said = CliRunner().invoke(cli.cli, ["drill", "galera", "--drill", "cut-node", *arguments])

    assert said.exit_code == 0
    assert ("HOLDS         nothing is lost; " if not arguments else '"kind": "drills"') in said.stdout
