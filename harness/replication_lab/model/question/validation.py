"""Refuse a question that cannot be answered on any topology: impossible settings, files, loads and numbers.

What one topology cannot do is refused in experiments/question/topologies.py.
"""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from replication_lab.model.core.errors import LabError, refuse_unknown, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.quantity import COUNT
from replication_lab.model.lab.endpoint import ENDPOINT
from replication_lab.model.lab.option_file import options_of, refuse_both
from replication_lab.model.lab.reserved_options import refuse_reserved
from replication_lab.model.question.load import INSERTS, LARGEST, OTHER, SYSBENCH, per_second, planned
from replication_lab.model.question.registers import INSTEAD, registers
from replication_lab.model.question.setting import (
    CHOICES,
    CLIENTS,
    CNF,
    ENGINE,
    NONE,
    OWN,
    RATE,
    RTT,
    TOPOLOGY,
    VALUE,
    VARIABLE,
    named,
    setting,
)
from replication_lab.model.question.sql_load import transactions
from replication_lab.model.question.sql_text import (
    ELSEWHERE,
    ON_ONE_COPY,
    REPLICATES,
    lines_of,
    refuse,
)

if TYPE_CHECKING:  # a question is validated when it is made
    from replication_lab.model.question.question import Question

# The settings that `lab ask` also has an option for.
OF_OPTIONS = (CLIENTS, RATE, RTT)
# Options of `lab ask` that a user may mistake for settings.
OPTIONS = (
    "baseline",
    "case",
    "check",
    "claim",
    "drill",
    "drill_runs",
    "duration",
    "image",
    "init",
    "ledger",
    "load_command",
    "load_image",
    "margin",
    "max_duration",
    "max_minutes",
    "noise",
    "rounds",
    "runs",
    "schema",
    "script_option",
    "seconds",
    "seed",
    "workload",
)
MOST_CLIENTS = 512
MOST_CASES = 32
# With fewer transactions the percentiles of a load are too imprecise to compare.
FEWEST_TRANSACTIONS = 10
# The smallest and the largest value of these fields, and the option of each, which a file names in another way, with a
# usual value.
LIMITS = {
    "seconds": (1, 3600, "--duration 3s"),
    "rounds": (3, 100, "--runs 12"),
    "margin": (0.001, 1, "--margin 10%"),
    "max_minutes": (0, 24 * 60, "--max-duration 60min"),
    "drill_runs": (0, 50, "--drill-runs 3"),
}
SCRIPT_OPTION = re.compile(r"[a-z][\w-]*")
# The lab gives sysbench these itself.
OF_THE_LAB = re.compile(r"(?:mysql|lab|db|thread|report)[_-].*|threads|time|events|rate|rand[_-]seed")
HAS_EVENTS = re.compile(r"\bevent\b|\brequire\b|\bdofile\b")


def refuse_bad_question(question: "Question") -> None:
    """Raise LabError for a question that makes no sense."""
    _refuse_a_bad_extent(question)
    _refuse_bad_cases(question)
    asked = {**question.vary, **{name: [value] for name, value in question.settings.items()}}
    for name, values in asked.items():
        refuse_bad_setting(name, values)
    if both := sorted(question.vary.keys() & question.settings.keys()):
        option = f" or --{both[0]}" if both[0] in OF_OPTIONS else ""
        raise LabError(f"{both[0]} is both varied and set", "one of the two", f"leave out --set {both[0]}=…{option}")
    if question.number_of_cases > MOST_CASES:
        raise LabError(
            f"the question has {question.number_of_cases} cases", f"at most {MOST_CASES}", "give fewer values"
        )
    for name, value in question.baseline.items():
        refuse_unknown("varied setting in the baseline", name, question.axes)
        refuse_unknown(f"value of {name} in the baseline", value, question.axes[name])
    refuse_bad_files(asked, question.cnf)
    for rate in asked.get(RATE, []):
        _refuse_too_few(rate, question.seconds)
    _refuse_bad_load(question.workload)
    _refuse_bad_script_options(question)
    _refuse_bad_command(question)
    for file in filter(None, (question.schema, question.init)):
        _refuse_bad_tables(file)


def _refuse_bad_cases(question: "Question") -> None:
    """Raise LabError for combinations that are not of the same settings, or a baseline that is none of them."""
    names = {frozenset(case) for case in question.cases}
    if len(names) > 1:
        raise LabError(
            f"--case names {' and '.join(','.join(case) for case in question.cases[:2])}",
            "the same settings in each --case",
            "--case engine=mysql-5.7,cnf=old.cnf --case engine=mysql-8.0,cnf=new.cnf",
        )
    if twice := [case for case in question.cases if question.cases.count(case) > 1]:
        raise LabError(f"--case {named(twice[0])} is given twice", "each case once")
    for name in question.cases[0] if question.cases else {}:
        if set(question.vary.get(name, [])) != {case[name] for case in question.cases}:
            raise LabError(f"{name} has values in vary that no case has", f"the values of {name} in cases")
    if question.cases and question.baseline and question.baseline not in question.cases:
        raise LabError(
            f"the baseline {named(question.baseline)} is no --case",
            f"one of {'; '.join(map(named, question.cases))}",
            f"--baseline {' --baseline '.join(named({name: value}) for name, value in question.cases[0].items())}",
        )


# --- the extent -------------------------------------------------------------------------------------------------------


def _refuse_a_bad_extent(question: "Question") -> None:
    if ENGINE in question.settings:
        raise LabError("engine is not a setting", "--engine ENGINE", f"--engine {question.settings[ENGINE]}")
    if question.engine and question.engine not in question.engines:
        raise LabError(
            f"the engine is {question.engine}, and engines vary: {', '.join(question.engines)}",
            "one of the two",
            f"leave out --engine {question.engine}",
        )
    if twice := [name for name in question.topologies if question.topologies.count(name) > 1]:
        raise LabError(f"topology {twice[0]} is named twice", "each topology once")
    if twice := [claim for claim in question.claims if question.claims.count(claim) > 1]:
        raise LabError(f"the claim {twice[0]!r} is given twice", "each claim once")
    if question.drill_runs and not question.drill:
        raise LabError(
            f"drill_runs is {question.drill_runs}, but no drill is given", "the name of a drill", "--drill lose-source"
        )
    if question.ledger:
        _refuse_no_transactions(question)
    if question.check:
        _refuse_unchecked(question)
    if not question.axes:
        raise LabError(
            "nothing is varied",
            "at least one --vary NAME=VALUE,VALUE, two topologies, or a drill",
            f"./lab ask {','.join(question.topologies)} --vary sync_binlog=0,1",
        )
    for name in LIMITS:
        _refuse_out_of_limits(name, getattr(question, name))


def _refuse_unchecked(question: "Question") -> None:
    """Raise LabError if the load cannot be checked for anomalies, with the statement for which it cannot."""
    asked = {**question.vary, **{name: [value] for name, value in question.settings.items()}}
    if isinstance(question.workload, str) or not question.workload.name.endswith(".sql"):
        raise LabError(
            f"--check with the load {question.load_name}, of which the lab does not know what it reads and writes",
            "--workload FILE.sql, whose transactions read and write rows by a key",
            INSTEAD,
        )
    for name in (RATE, ENDPOINT):
        if any(each.partition(".")[0] == name for each in asked):
            raise LabError(f"--check with {name}", "clients that collide on the nodes themselves", f"leave out {name}")
    if few := [many for many in asked.get(CLIENTS, ["1"]) if many == "1"]:
        raise LabError(f"--check with {few[0]} client, which nothing collides with", "two or more", "--clients 6")
    registers(question.transactions)


def _refuse_no_transactions(question: "Question") -> None:
    """Raise LabError if there is no transaction that a ledger could count."""
    if not question.drill:
        raise LabError("--ledger without --drill: no fault could lose a row", "--drill NAME", "--drill lose-source")
    if isinstance(question.workload, str) or not question.workload.name.endswith(".sql"):
        raise LabError(
            f"--ledger with the load {question.load_name}, which is not a .sql file of transactions",
            "--workload FILE.sql; without --ledger the rows of the drill's own clients are counted",
            "leave out --ledger",
        )
    if not any(each.writes for each in question.transactions):
        raise LabError(
            f"no transaction of {question.load_name} writes",
            "at least one transaction that writes",
            "leave out --ledger",
        )


def _refuse_out_of_limits(name: str, value: float) -> None:
    """Raise LabError for a number that is not within its limits; the message shows the margin in percent."""
    low, high, typical = LIMITS[name]
    if low <= value <= high:
        return
    option = name.replace("_", "-")
    # 0 stands for the default number of drills; the option itself does not accept it.
    least = 1 if name == "drill_runs" else low
    found, first, last = (f"{each * 100:g}%" if name == "margin" else f"{each:g}" for each in (value, least, high))
    raise LabError(f"{option} is {found}", f"a number from {first} to {last}", typical)


# --- settings ---------------------------------------------------------------------------------------------------------


def refuse_bad_setting(name: str, values: list[str], most_clients: int = MOST_CLIENTS) -> None:
    """Raise LabError for an impossible setting, before anything starts."""
    if name == TOPOLOGY:
        raise LabError("topology is not a setting", "topologies as the argument", f"./lab ask {','.join(values)} …")
    _refuse_no_setting(name)
    if not values:
        raise LabError(f"{name} has no value", "at least one", f"--vary {name}=VALUE,VALUE")
    if any(setting(name).is_same(*pair) for pair in combinations(values, 2)):
        raise LabError(f"{name} has a value twice: {', '.join(values)}", "values that differ", f"--vary {name}=…")
    for value in values:
        _refuse_bad_value(name, value, most_clients)
    if name not in OWN and not VARIABLE.fullmatch(name):
        raise LabError(
            f"{name!r} is not a setting",
            f"{', '.join(OWN)}, {CNF}, a server's variable or NODE.VARIABLE",
            "--vary sync_binlog=0,1",
        )


def _refuse_no_setting(name: str) -> None:
    """Raise LabError for an option that is the same for all cases, and for a variable that the lab sets itself.

    A setting of a whole case that is given for a single node is refused as well.
    """
    option = name.replace("-", "_")
    if option in OPTIONS:
        typed = LIMITS[option][2].partition(" ")[0] if option in LIMITS else f"--{option.replace('_', '-')}"
        raise LabError(f"{name} is not a setting", f"the option {typed}, which applies to all cases", f"{typed} …")
    asked = setting(name)
    if asked.node and asked.what in OWN:
        raise LabError(
            f"{name}: {asked.what} is not a setting of one node",
            f"{asked.what}, without {asked.node}",
            f"--set {asked.what}=…",
        )
    refuse_reserved(asked.what)


def _refuse_bad_value(name: str, value: str, most_clients: int) -> None:
    if name in CHOICES and value not in CHOICES[name]:
        raise unknown_name(name, value, CHOICES[name])
    if name == CLIENTS:
        COUNT.parse(value, "clients", 1, most_clients)
    if name == RATE:
        per_second(value)
    if name not in OWN and not VALUE.fullmatch(value):
        raise LabError(
            f"{name} is {value!r}", "a number, ON, OFF or a word", f"--vary {name}=…, without quotes and spaces"
        )


def refuse_bad_files(asked: Mapping[str, Sequence[str]], files: Sequence[GivenFile]) -> None:
    """Raise LabError for a file that servers cannot use, a missing file, and a file that no setting names."""
    names = [file.name for file in files]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise LabError(f"two files are called {twice}", "files with names that differ", "rename one of them")
    for file in files:
        options_of(file)
    users = {name: values for name, values in asked.items() if setting(name).is_file}
    used = {value for values in users.values() for value in values}
    for value in sorted(used):
        refuse_unknown("file of the setting cnf", value, [*names, NONE])
    if left := sorted(set(names) - used):
        raise LabError(
            f"no setting uses the file {left[0]}", f"a setting {CNF} that uses it, or a question without the file"
        )
    for file in files:
        for name in (name for name, values in users.items() if file.name in values):
            refuse_both(name, file, [other for other in asked if other not in users])


# --- the load ---------------------------------------------------------------------------------------------------------


def _refuse_too_few(rate: str, seconds: int) -> None:
    """Raise LabError for a rate that gives too few transactions in a load of this many seconds."""
    if planned(per_second(rate), seconds) < FEWEST_TRANSACTIONS:
        needed = math.ceil(FEWEST_TRANSACTIONS / per_second(rate))
        raise LabError(
            f"at a rate of {rate} fewer than {FEWEST_TRANSACTIONS} transactions begin in {seconds} s",
            f"at least {FEWEST_TRANSACTIONS} in each load",
            f"--duration {needed}s",
        )


def _refuse_bad_load(workload: str | GivenFile) -> None:
    if isinstance(workload, str):
        refuse_unknown("workload", workload, (INSERTS, *SYSBENCH), other=OTHER)
        return
    _refuse_too_large(workload)
    if workload.name.endswith(".sql"):
        transactions(workload)
    elif not workload.name.endswith(".lua"):
        raise LabError(f"{workload.name} is neither .sql nor .lua", OTHER, "--workload load.sql")
    elif not HAS_EVENTS.search(workload.text):
        raise LabError(f"{workload.name} defines no function event", "a script for sysbench", "read docs/asking.md")


def _refuse_bad_script_options(question: "Question") -> None:
    """Raise LabError for options without a script, and for those that the lab sets itself."""
    if question.script_options and not question.load_name.endswith(".lua"):
        raise LabError(
            f"--script-option with the load {question.load_name}, which is not your own script",
            "--workload FILE.lua",
            "leave out --script-option",
        )
    for name in question.script_options:
        if not SCRIPT_OPTION.fullmatch(name) or OF_THE_LAB.fullmatch(name):
            raise LabError(
                f"--script-option {name} is none of the script's own options",
                "an option that the script lists in sysbench.cmdline.options",
                "--script-option scale=10",
            )


def _refuse_bad_command(question: "Question") -> None:
    """Raise LabError for a command that cannot be the load, or that is a second load."""
    command, image = question.load_command, question.load_image
    if command is None:
        if image:
            raise LabError(
                f"--load-image {image} without --load-command",
                "both, or neither",
                f"--load-image {image} --load-command 'CMD'",
            )
        return
    if not command.strip():
        raise LabError("--load-command is empty", "a command for sh", "--load-command 'python3 /load.py'")
    if question.workload != INSERTS:
        other = question.workload if isinstance(question.workload, str) else question.workload.name
        raise LabError(
            f"both --workload {other} and --load-command are given", "one load", f"leave out --workload {other}"
        )


def _refuse_bad_tables(file: GivenFile) -> None:
    _refuse_too_large(file)
    lines_of(file)
    refuse(file, ON_ONE_COPY, REPLICATES, ELSEWHERE)


def _refuse_too_large(file: GivenFile) -> None:
    if (size := sum(len(each.text) for each in (file, *file.beside))) > LARGEST:
        raise LabError(
            f"{file.name} has {size >> 20} MiB",
            f"at most {LARGEST >> 20} MiB, because the record contains it",
            "make rows by --init: INSERT … SELECT",
        )
