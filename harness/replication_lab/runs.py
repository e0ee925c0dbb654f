"""Runs: from the name of an experiment, or from drills, to a judged run on disk, and again from its record."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from replication_lab import VERSION, experiments
from replication_lab.attach import drills as attached_drills
from replication_lab.model.comparing.digest import Digest, digest
from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.core.progress import Tell
from replication_lab.model.drill.drill import Drill
from replication_lab.model.drill.drill_result import CaseDrilled, Result
from replication_lab.model.drill.evidence import DrillsOpening
from replication_lab.model.drill.timeline import Timeline
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Experiment, Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.site import Site
from replication_lab.model.live.view import Live
from replication_lab.model.record.record import Record
from replication_lab.report import DrillsSummary, ExperimentSummary, Summary, formats, summarise, summarise_drills
from replication_lab.runner import asked_drills, drill_set
from replication_lab.runner import soak as soaks
from replication_lab.runner.application import Probe
from replication_lab.runner.rounds import Run
from replication_lab.runner.world import World
from replication_lab.world import catalogue, folders
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.project import exported
from replication_lab.world.files import read_own, write_whole
from replication_lab.world.journal import LATEST, Journal, names, read, record_file

Found = TypeVar("Found", bound=Summary)
Timelines = dict[str, Timeline]
DIGEST = "digest.json"
# The rounds of a soak, as `lab soak --schedule` reads them.
SCHEDULE = "schedule.yaml"


class _Verdict(msgspec.Struct):
    """The part of a summary.json that every version of it has."""

    verdict: str


def run(asked: RunRequest, tell: Tell, world: World | None = None) -> tuple[Path, ExperimentSummary]:
    """Run an experiment and write its report; return folder and summary. Refuse bad names before anything starts."""
    experiment, preset = _with_toxics(asked.experiment, asked.extent), asked.extent
    asked = replace(asked, experiment=experiment)
    _check_cases(experiment, preset, asked.servers)
    drills = {engine: asked_drills.planned(experiment, engine) for engine in asked.servers}
    of_cases = [pair for case in experiment.chosen(preset) for pair in case.toxics.items()]
    files = [
        (spec.on(engine), case.state.servers)
        for engine in asked.servers
        for case in experiment.chosen(preset)
        if (spec := experiment.lab_of(case)).engine in ("", engine)
    ]
    of_drills = drill_set.toxics(each.drill for planned in drills.values() for each in planned)
    world = world or World(asked.spread)
    with exported({name: os.environ.get(name, value) for name, value in preset.compose_env.items()}):
        together = [[lab for labs in part.values() for lab in labs] for part in asked.parts]
        world.make_ready(together, tell, asked.command, [*of_cases, *of_drills], files)
        journal = Journal(experiment.name)
        started = Run(asked, journal, world, tell, drills)
        return _reported(journal, started.run, lambda: _of_experiment(experiment, journal.folder, journal.record))


def _with_toxics(experiment: Experiment, preset: Preset) -> Experiment:
    """Return the experiment with the toxics that its cases name; LabError for an unknown link or condition."""

    def resolved(case: Case) -> Case:
        topology, kind = experiment.lab_of(case).topology, f"toxic of case {case.name} in {experiment.name}"
        named = {link: catalogue.toxic(name, kind) for link, name in case.settings.get("toxics", {}).items()}
        for link in (toxics := {**case.toxics, **named}):
            catalogue.topology(topology).link(link)
        return replace(case, toxics=toxics)

    chosen = experiment.chosen(preset)
    return replace(experiment, cases=tuple(resolved(case) if case in chosen else case for case in experiment.cases))


def _check_cases(experiment: Experiment, preset: Preset, engines: list[str]) -> None:
    """Refuse an engine that supports no case of those that the user chose, before a lab starts."""
    known, cases = catalogue.engines(), experiment.chosen(preset)
    for engine in engines if experiment.only.why_not_measured else []:
        # What a server from any image has is read when it runs.
        lacking = [case.needs - known[engine].features for case in cases if engine in known]
        if lacking and all(lacking):
            able = [
                each
                for each in engines
                if each not in known or any(case.needs <= known[each].features for case in cases)
            ]
            others = f" --engine {','.join(able)}" if able else ""
            raise LabError(
                f"{engine} has no {' and no '.join(sorted(lacking[0]))}, which every chosen case needs",
                "engines that support at least one of the cases",
                f"./lab run {experiment.name}{others}{experiment.only.options}" if able else "./lab list engines",
            )


def drill(  # noqa: PLR0913 - what is run, where, and what becomes of it
    topology: str,
    engine: str,
    drills: Sequence[Drill],
    seed: int,
    tell: Tell,
    *,
    keep: bool = False,
    sites: Mapping[str, Site] | None = None,
) -> tuple[Path, DrillsSummary]:
    """Run drills and write their report; return the folder and the summary. Refuse an unavailable engine.

    With `keep` the lab of the first drill that fails stays up, and the run ends there.
    """
    asked = replace(drill_set.lab_request(topology, engine, drills), sites=dict(sites or {}))
    drill_set.make_ready(topology, asked.engine, drills)
    journal = Journal(f"drill-{topology}")
    return _drilled(journal, lambda: drill_set.run(asked, drills, seed, journal=journal, tell=tell, keep=keep))


def soak(schedule: soaks.Schedule, engine: str, seconds: float, tell: Tell) -> tuple[Path, DrillsSummary]:
    """Run the rounds of a soak and write their report; return the folder and the summary.

    No round begins after these seconds, and none after one that failed.
    """
    drills = schedule.drills()
    drill_set.make_ready(schedule.topology, engine, drills)
    asked = drill_set.lab_request(schedule.topology, engine, drills)
    journal = Journal(f"soak-{schedule.topology}")
    write_whole(journal.folder / SCHEDULE, schedule.text())
    goes_on = soaks.until_failure(journal, seconds)
    return _drilled(
        journal, lambda: drill_set.run(asked, drills, schedule.seed, journal=journal, tell=tell, goes_on=goes_on)
    )


def drill_attached(
    lab: AttachedLab, drills: Sequence[Drill], seed: int, tell: Tell, probe: Probe | None = None
) -> tuple[Path, DrillsSummary]:
    """Run drills on an attached project and write their report; return the folder and the summary."""
    journal = Journal(f"drill-{lab.name}")
    return _drilled(journal, lambda: attached_drills.run(lab, drills, seed, journal=journal, tell=tell, probe=probe))


def _drilled(journal: Journal, act: Callable[[], object]) -> tuple[Path, DrillsSummary]:
    return _reported(journal, act, lambda: _of_drills(journal.folder, journal.record))


def _reported(
    journal: Journal, act: Callable[[], object], summed_up: Callable[[], tuple[Found, Timelines]]
) -> tuple[Path, Found]:
    """Run, and write the report in any case; raise any error again after that."""

    def reported() -> Found:
        summary, timelines = summed_up()
        write_report(journal.folder, summary, journal.record, timelines)
        write_index()
        return summary

    try:
        act()
    except BaseException:
        # Without a single event not even the machine could be described. The first error is the one to tell: a full
        # disk also prevents the report.
        if journal.record.events:
            with suppress(LabError):
                reported()
        raise
    return journal.folder, reported()


def raise_interruption(summary: Summary) -> None:
    """Raise the interruption that ended a run, for callers that would go on with other runs."""
    if summary.interrupted is not None:
        raise KeyboardInterrupt(summary.interrupted)


def available(experiment: Experiment) -> list[str]:
    """Return the engines of an experiment that are built here."""
    return [name for name in experiment.engines if not catalogue.engines()[name].image]


def judge(run: str | Path) -> Summary:
    """Judge a run again, of an experiment or of drills, from its files alone."""
    return summed_up(*read(run))[0]


def report(run: str) -> tuple[Summary | None, list[str]]:
    """Judge a run again and write its report; return the summary, None without a verdict, and the paths."""
    folder, record = read(run)
    if isinstance(record.opening, Live):
        from replication_lab.report import live_page

        return None, _write(folder, [("report.html", live_page.render(record.opening, record).encode())])
    summary, timelines = summed_up(folder, record)
    written = write_report(folder, summary, record, timelines)
    if folder.parent == catalogue.RUNS.resolve():
        write_index()
    return summary, written


def write_report(folder: Path, summary: Summary, record: Record, timelines: Timelines) -> list[str]:
    """Write summary.json, junit.xml and report.html into the folder of a run; return the paths. Keep its digest."""
    with as_lab_error(
        ArithmeticError, f"figures of {folder.name} cannot be drawn", "measured figures", "./lab report --format text"
    ):
        written = _write(folder, formats.files(summary, record, timelines))
    if isinstance(summary, ExperimentSummary):
        _keep_digest(folder, record)
    return written


def _write(folder: Path, found: Iterable[tuple[str, bytes]]) -> list[str]:
    """Write the files of a report into the folder of a run; return the paths."""
    written = []
    for name, content in found:
        write_whole(folder / name, content)
        written.append(str(folder / name))
    return written


def rendered(run: str, form: str) -> str:
    """Return a run's report in one of report.formats.FORMATS; LabError if the kind of run has none of that format."""
    folder, record = read(run)
    summary, timelines = summed_up(folder, record)
    return formats.rendered(form, folder.name, summary, record, lambda: digest_of(run), timelines=timelines)


def report_page(run: str) -> Path:
    """Return the report.html of a run; LabError if none was written."""
    page = record_file(run).parent.resolve() / "report.html"
    if not page.is_file():
        raise LabError(f"{run} has no report.html", "a run with a report", f"./lab report {run}")
    return page


def remark_on_latest() -> str:
    """Return a sentence if the newest run has no results, with the newest one that has; else an empty string."""
    folder, record = read(LATEST)
    if isinstance(record.opening, Live) or record.has_results:
        return ""
    others = (name for name in reversed(names()) if name != folder.name and _has_results(name))
    other = next(others, "")
    remedy = f"The latest run with results is {other}." if other else "No run has results yet."
    return f"nothing was measured in {folder.name}: {record.stopped or 'the run has not ended'}. {remedy}"


def _has_results(name: str) -> bool:
    with suppress(LabError):
        return read(catalogue.RUNS / name)[1].has_results
    return False


def digest_of(run: str | Path) -> Digest:
    """Return what of a recorded run is compared with other runs. Raise LabError for a record of drills."""
    return _digest(*read(run))


def _digest(folder: Path, record: Record) -> Digest:
    return digest(folder.name, experiments.of(record), record)


def digests() -> list[Digest]:
    """Return what can be compared of each recorded run of an experiment; a record that cannot be read is left out.

    Of a record that has not changed since its report was written, or since this was asked for, the digest is kept
    beside it, and the record is not read: it may be a gigabyte.
    """
    return [found for name in names() if (found := _kept_digest(catalogue.RUNS / name)) is not None]


class _Kept(msgspec.Struct):
    """The contents of digest.json: the digest and what it was made from; None where there is nothing to compare."""

    made_from: str
    digest: Digest | None


def _kept_digest(folder: Path) -> Digest | None:
    with suppress(LabError, OSError, msgspec.MsgspecError):
        kept = msgspec.json.decode(read_own(folder / DIGEST) or b"", type=_Kept)
        if kept.made_from == _made_from(folder):
            return kept.digest
    return _keep_digest(folder)


def _keep_digest(folder: Path, record: Record | None = None) -> Digest | None:
    """Compute the digest of a run and keep it, where that is possible."""
    found = None
    with suppress(LabError, OSError):
        made_from = _made_from(folder)
        with suppress(LabError):
            found = _digest(folder, record or read(folder)[1])
        write_whole(folder / DIGEST, msgspec.json.encode(_Kept(made_from, found)))
    return found


def _made_from(folder: Path) -> str:
    """Return a hash of what a digest depends on: the record, this version with its code, the user's own experiments.

    A copy of a record, or one that was edited, has another time of change, which a user cannot set.
    """
    record = record_file(folder).stat()
    of_record = record.st_size, record.st_mtime_ns, record.st_ctime_ns
    return hashlib.sha256(
        repr((of_record, VERSION, _sources(), _states(experiments.own_files().values()))).encode()
    ).hexdigest()


@cache
def _sources() -> list[tuple[str, int, int]]:
    return _states(sorted(Path(__file__).parent.rglob("*.py")))


def _states(files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return the name, size and time of change of files."""
    return [(str(file), found.st_size, found.st_mtime_ns) for file in files for found in [file.stat()]]


def write_index() -> Path:
    """Write runs/index.html, the page of all runs, from their summaries; return its path."""
    from replication_lab.report import index

    summaries = {name: catalogue.RUNS / name / "summary.json" for name in names()}
    found = [
        index.IndexedRun(name, index.decode(file.read_bytes()) if file.is_file() else None)
        for name, file in summaries.items()
    ]
    path = catalogue.RUNS / "index.html"
    write_whole(path, folders.as_typed(index.render(found)).encode())
    return path


def verdicts() -> dict[str, str]:
    """Return the verdict of each recorded run as its summary.json has it; "not reported" where there is none."""
    found = dict.fromkeys(names(), "not reported")
    for name in found:
        with suppress(OSError, msgspec.DecodeError):
            summary = catalogue.RUNS / name / "summary.json"
            found[name] = msgspec.json.decode(summary.read_bytes(), type=_Verdict).verdict
    return found


def summed_up(folder: Path, record: Record) -> tuple[Summary, Timelines]:
    """Return the summary of a run, and what the clients of its drills saw over time."""
    if isinstance(record.opening, Live):
        raise LabError(
            f"{folder.name} is a record of the live page, which has no verdict",
            "a run of an experiment or of drills",
            f"./lab report {folder.name}",
        )
    if isinstance(record.opening, DrillsOpening):
        return _of_drills(folder, record)
    return _of_experiment(experiments.of(record), folder, record)


def _of_experiment(experiment: Experiment, folder: Path, record: Record) -> tuple[ExperimentSummary, Timelines]:
    with_results = asked_drills.with_results(folder, record)
    results = [event.result for event in with_results.events if isinstance(event, CaseDrilled)]
    return summarise(experiment, with_results), _timelines(results)


def _of_drills(folder: Path, record: Record) -> tuple[DrillsSummary, Timelines]:
    results = drill_set.results(folder, record)
    return summarise_drills(record, results), _timelines(results)


def _timelines(results: Sequence[Result]) -> Timelines:
    """Return what the clients of each drill saw over time, by the name of its ledger."""
    return {result.ledger: result.timeline for result in results if result.timeline}
