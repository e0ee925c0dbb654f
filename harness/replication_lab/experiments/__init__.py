"""Experiments: one a file, with the figures from the literature in the YAML beside it.

A file whose name begins with "_" is a part of experiments. `question/` makes an experiment of a user's question.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from replication_lab.model.core.errors import LabError, refuse_long, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.quantity import with_durations
from replication_lab.model.experiment.experiment import Experiment
from replication_lab.model.question.question import Question
from replication_lab.model.question.setting import RTT, Values
from replication_lab.model.record.chosen import Against, Only
from replication_lab.model.record.record import Record
from replication_lab.world import catalogue, given_texts, own

FOLDER = Path(__file__).parent
QUESTIONS = (".yaml", ".yml")
# Where `experiment` (_declared.py) leaves what a module declares.
DECLARED = "__experiment__"
EXPECTED = "a file that calls `experiment` (docs/adding.md)"


def names() -> list[str]:
    return sorted({*(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")), *own_files()})


def own_files() -> dict[str, Path]:
    """Return the user's own experiments and questions, by name; a YAML file beside an experiment's is its data."""
    return own.files("experiments", *QUESTIONS) | own.files("experiments", ".py")


def file_of(name: str) -> Path:
    return own_files().get(name, FOLDER / f"{name}.py")


def question_file(asked: str | Path) -> Path | None:
    """Return the YAML file of a question: a path, or one of the user's own by its name; None for anything else."""
    path = Path(asked) if Path(asked).suffix in QUESTIONS else file_of(str(asked))
    return path if path.suffix in QUESTIONS else None


def load(name: str, rtt: str = "") -> Experiment:
    """Return the experiment of that name, with another round trip on its WAN if one is given."""
    if name not in names():
        raise unknown_name("experiment", name, names(), "./lab list experiments")
    refuse_long(name, "experiment")
    path = file_of(name)
    if path.suffix in QUESTIONS:
        found = from_file(path)
    elif path.parent == FOLDER:
        found = getattr(importlib.import_module(f"{__name__}.{name}"), DECLARED)
    else:
        module = own.module_of(path, EXPECTED)
        if not hasattr(module, DECLARED):
            raise LabError(f"{own.shown(path)}:1: the file declares no experiment", EXPECTED)
        found = getattr(module, DECLARED)
    if not rtt:
        return found
    if found.at is None:
        able = ", ".join(each for each in names() if load(each).at)
        raise LabError(f"--rtt {rtt}: the round trips of {name} are fixed", f"one of {able}", f"./lab run {name}")
    return found.with_rtt(rtt)


def named(asked: str | Path) -> Experiment:
    """Return the experiment of that name, or of a question's YAML file."""
    return from_file(asked) if Path(asked).suffix in QUESTIONS else load(str(asked))


def asked(question: Question) -> Experiment:
    """Return the experiment that answers a user's question."""
    # Its imports set servers' variables, which a list of names does not need; the same holds below.
    from replication_lab.experiments.question.experiment import experiment_of

    return experiment_of(question)


def from_file(path: str | Path) -> Experiment:
    """Return the experiment of a question in a YAML file. Raise LabError for a file that holds none.

    Its workload may be one of the user's own, by its name.
    """
    try:
        with own.explained(Path(path)) as text:
            return asked(_parsed(text))
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}", "a file of `lab ask --save FILE`") from error


def _parsed(text: str) -> Question:
    try:
        found = with_durations(msgspec.yaml.decode(text), "the question")
        workload = found.get("workload") if isinstance(found, dict) else None
        if isinstance(workload, str) and workload in catalogue.workloads():
            file = given_texts.read_for_a_record(catalogue.workloads()[workload])
            found["workload"] = msgspec.to_builtins(file)
        return msgspec.convert(found, Question)
    except msgspec.MsgspecError as error:
        raise LabError(f"the file holds no question: {error}", "a file of `lab ask --save FILE`") from error


def of(record: Record) -> Experiment:
    """Return the experiment that a record is of: one of this folder, or the user's question that the record holds."""
    if record.run.question is not None:
        return asked(record.run.question)
    from replication_lab.experiments import _options

    conditions = dict(record.run.conditions)
    found = load(record.run.experiment, conditions.pop(RTT, ""))
    changed = _options.changed(found, conditions, record.run.cnf, record.run.against)
    return replace(changed, only=record.run.only)


def chosen(
    found: Experiment,
    preset: str,
    settings: Values,
    only: Only,
    against: Against | None = None,
    cnf: Sequence[GivenFile] = (),
) -> Experiment:
    """Return an experiment as the options of `lab run` change it. Raise LabError for what it does not have.

    The commit of `against` may be any revision.
    """
    from replication_lab.experiments import _options

    if against and against.commit:
        against = msgspec.structs.replace(against, commit=catalogue.commit(against.commit, found.topology))
    if settings:
        _options.refuse_bad_settings(found, preset, settings, cnf)
    return _options.restricted(_options.changed(found, settings, cnf, against), preset, only)
