"""Is a run that ends early recorded, reported and taken down?"""

import io
from dataclasses import replace

import pytest
from replication_lab import experiments
from replication_lab import runs as running
from replication_lab.experiments import load
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import End
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.report import terminal
from replication_lab.runner.rounds import _time_left
from replication_lab.runner.session import EngineSession
from replication_lab.world import catalogue, journal
from rich.console import Console

from tests.conftest import run_to_its_end
from tests.fakes import troubles
from tests.unit.synthetic_runs import at, tiny

semisync_wan = load("semisync_wan")


def test_an_interrupted_run_is_recorded_reported_and_taken_down(fake_world, runs, undrawn):
    """After SIGTERM in a load the record says so, the report exists, the lab is gone and the exit status is not 0."""
    world = fake_world(meanwhile=at(3, troubles.interrupt))
    folder, summary = running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _: None, world)

    assert summary.interrupted == "SIGTERM"
    assert summary.exit_code == 3
    assert "interrupted by SIGTERM" in summary.claims[0].reason
    # Said once, not once for each claim that is not decided.
    printed = io.StringIO()
    Console(width=100, file=printed).print(terminal.render(summary))
    assert printed.getvalue().count("SIGTERM") == 1 and "1 UNKNOWN" in printed.getvalue()
    assert world.taken_down == ["mariadb"]
    assert {"record.jsonl", "summary.json", "junit.xml", "report.html"} <= {path.name for path in folder.iterdir()}


def test_the_first_round_tells_how_long_the_others_take(fake_world, runs, undrawn):
    """By the plan's fewest and most rounds; a run that is decided sooner ends sooner."""
    told: list[str] = []
    running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), told.append, fake_world())

    assert len([line for line in told if line.startswith("  round 1 took ")]) == 1
    assert _time_left(90, Preset("quick", 3, 8, {}), 1) == "  round 1 took 90 s; the others take 3.0 to 10.5 minutes"


def test_an_interruption_after_the_decision_is_not_green(ran, monkeypatch):
    """A run that was stopped before its copies were compared is not as expected, however well it went until then."""

    def interrupt(_session):
        raise KeyboardInterrupt("SIGINT")

    monkeypatch.setattr(EngineSession, "compare_copies", interrupt)
    summary, record, _ = ran(tiny())

    assert (record.end.why, summary.claims[0].verdict) == ("interrupted", Verdict.HOLDS)
    assert summary.exit_code == 3


def test_an_interruption_ends_the_tests_as_well(fake_world, runs, undrawn, monkeypatch):
    """Verdicts that were there by then are no reason to let a test of them pass, nor to go on with other tests."""
    monkeypatch.setattr(EngineSession, "compare_copies", troubles.interrupt)
    monkeypatch.setattr(running, "World", lambda _load: fake_world())
    monkeypatch.setattr(experiments, "load", lambda *_: tiny())

    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        run_to_its_end("semisync_wan", "mariadb", "quick")
    assert running.judge("latest").interrupted == "SIGTERM"


def test_a_crashed_run_is_recorded_reported_and_taken_down(fake_world, runs, undrawn):
    """A defect of the harness leaves a record that says crashed, a report with status 2, no lab, and is raised."""
    world = fake_world(meanwhile=at(3, troubles.crash))
    with pytest.raises(ZeroDivisionError):
        running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _: None, world)
    folder, record = journal.read(str(runs / "latest"))

    assert record.crashed == "ZeroDivisionError: a defect of the harness"
    assert record.end.why == "crashed"
    assert '"exit_code": 2' in (folder / "summary.json").read_text()
    assert world.taken_down == ["mariadb"]


def test_a_lab_is_taken_down_when_it_cannot_be_prepared(fake_world, runs):
    """What fails before the first load takes the lab away as well."""

    def fail(_lab):
        raise LabError("no table", "a table")

    world = fake_world()
    with pytest.raises(LabError, match="no table"):
        running.run(RunRequest(tiny(prepare=fail), ["mariadb"], "quick", 7), lambda _: None, world)

    assert world.taken_down == ["mariadb"]


def kept(fake_world, engines=("mariadb", "mysql-5.5"), **troubles):
    """Run with --keep in a fake world: (the world, what was told)."""
    world, told = fake_world(**troubles), []
    try:
        running.run(RunRequest(tiny(), list(engines), "quick", 7, keep=True), told.append, world)
    except ZeroDivisionError:
        told.append("crashed")
    return world, told


def test_the_lab_of_an_engine_that_is_not_as_expected_is_left_up_where_asked_for(fake_world, runs, undrawn):
    """The run ends there, and its record says why the second engine was not measured."""
    world, told = kept(fake_world, meanwhile=troubles.fall_back)
    record = journal.read("latest")[1]

    assert (world.came_up, world.left_up, world.taken_down) == (["mariadb"], ["mariadb"], [])
    assert "fake-semisync stays up" in told
    assert (record.end.why, record.end.reason) == ("kept", "--keep left fake-semisync up")


def test_the_lab_of_a_crash_is_left_up_where_asked_for(fake_world, runs, undrawn):
    """The error is raised all the same."""
    world, told = kept(fake_world, meanwhile=at(3, troubles.crash))

    assert (world.left_up, world.taken_down, told[-1]) == (["mariadb"], [], "crashed")


@pytest.mark.parametrize("trouble", [troubles.nothing, at(3, troubles.interrupt)])
def test_a_run_that_did_not_fail_leaves_nothing_up(fake_world, runs, undrawn, trouble):
    """All as expected, or stopped by its user."""
    world, _ = kept(fake_world, meanwhile=trouble)

    assert world.left_up == [] and world.taken_down == world.came_up


def test_bad_names_are_refused_before_anything_starts(fake_world, runs, refused):
    """An unknown engine or preset leaves no folder and no lab."""
    world = fake_world()
    error = refused(lambda: running.run(RunRequest(tiny(), ["mariadbb"], "quick", 7), print, world))
    assert "did you mean mariadb?" in error.found
    error = refused(lambda: running.run(RunRequest(tiny(), ["mariadb"], "quik", 7), print, world))
    assert "did you mean quick?" in error.found

    assert not runs.exists() and not world.came_up


WITHOUT_SEMI_SYNC = [name for name, each in catalogue.engines().items() if "semisync" not in each.features]


@pytest.mark.parametrize("engine", WITHOUT_SEMI_SYNC)
def test_a_server_without_semi_sync_is_refused_with_the_reason(engine, fake_world, runs, refused):
    """Beside a server that has it too: the pair is impossible, so nothing of the run is begun."""
    world = fake_world()
    error = refused(lambda: running.run(RunRequest(semisync_wan, ["mysql-8.0", engine], "quick", 7), print, world))

    said = f"engine {engine} has no semisync, which semisync needs: in this version, semi-sync is a plugin"
    assert said in error.found
    assert "mysql-8.0" in error.expected and engine not in error.expected.split(", ")
    assert not runs.exists() and not world.came_up


def test_a_run_is_judged_again_from_its_record_alone(fake_world, runs, brief, undrawn):
    """`lab report` of a finished run gives the same summary, here where no unit test can reach Docker."""
    known = replace(semisync_wan, presets={"quick": brief})
    _, first = running.run(RunRequest(known, ["mariadb"], "quick", 7), lambda _: None, fake_world())

    assert running.judge("latest") == first


def test_a_report_can_be_written_again(ran, runs):
    """`lab report` writes the same three files from the record."""
    ran(tiny())

    assert [path.rpartition("/")[2] for path in running.report("latest")[1]] == [
        "summary.json",
        "junit.xml",
        "report.html",
    ]
    assert "semisync_wan" in (runs / "latest" / "report.html").read_text()


def test_an_unknown_run_names_the_runs_there_are(ran, runs, refused):
    """Asking for a record that does not exist lists the latest that do."""
    ran(tiny())

    assert refused(running.judge, "yesterday").expected == (runs / "latest").resolve().name


def test_a_latest_run_without_results_says_so_and_names_the_one_before(ran, runs, fake_world):
    """A user may take the older run for the one that has just failed, or the empty page for the older one."""
    ran(tiny())
    before = (runs / "latest").resolve().name
    assert running.remark_on_latest() == ""
    world = fake_world(meanwhile=at(1, troubles.crash))
    with pytest.raises(ZeroDivisionError):
        running.run(RunRequest(tiny(), ["mariadb"], "quick", 7), lambda _: None, world)

    said = running.remark_on_latest()
    assert said.startswith("nothing was measured in ") and "the run crashed: ZeroDivisionError" in said
    assert said.endswith(f"The latest run with results is {before}.")


def test_two_runs_in_one_second_have_folders_of_their_own(runs):
    """The second of two runs with one name gets a number, and latest points at it."""
    from datetime import datetime

    noon = datetime(2030, 1, 1, 12)
    first, second = (journal.Journal("x", now=lambda: noon, runs=runs) for _ in range(2))
    for each in (first, second):
        each.write(End(why="done"))

    assert (first.folder.name, second.folder.name) == ("20300101-120000-x", "20300101-120000-x-2")
    assert (runs / "latest").resolve() == second.folder


def test_the_noise_of_the_first_round_is_told_after_it(ran):
    """How many of its measurements were noisy, and by what; nothing on a quiet machine."""
    noisy, quiet = [], []
    ran(tiny(), noisy=lambda load: load == 2, tell=noisy.append)
    ran(tiny(), tell=quiet.append)

    [line] = [line for line in noisy if line.startswith("noise:")]
    assert line.startswith("noise: 1 of 3 measurements so far; the last one: ") and "60%" in line
    assert not [line for line in quiet if line.startswith("noise:")]
