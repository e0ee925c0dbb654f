"""Does the next step of an error name the lab that the refused command named?"""

import sys

import pytest
from replication_lab import cli
from replication_lab.cli.next_step import with_lab
from replication_lab.model.core.errors import LabError


@pytest.mark.parametrize(
    ("step", "named"),
    [
        ("./lab status", "./lab status --lab shop"),
        ('./lab sql replica -e "SELECT 1", then wait', './lab sql --lab shop replica -e "SELECT 1", then wait'),
        ("./lab disk list", "./lab disk list --lab shop"),
        ("./lab status; ./lab sql db", "./lab status --lab shop; ./lab sql --lab shop db"),
        ("./lab status --lab other, or ./lab start db", "./lab status --lab other, or ./lab start --lab shop db"),
        ("./lab list engines", "./lab list engines"),
        ("./lab up --help", "./lab up --help"),
        ("./lab no-such-command", "./lab no-such-command"),
        ("docker ps", "docker ps"),
    ],
)
def test_a_next_step_names_the_lab_where_it_can(step, named):
    """Each of its commands, unless it has a lab or takes none."""
    assert with_lab(step, "shop", cli.cli) == named


@pytest.mark.parametrize("typed", [("--lab", "shop"), ("--lab=shop",)])
def test_the_lab_of_the_refused_command_is_the_one_that_is_named(monkeypatch, typed):
    """Without one the next step stays as it is: the lab is the only one."""
    monkeypatch.setattr(sys, "argv", ["lab", "sql", "x", *typed])
    assert cli._of_the_same_lab(LabError("x", "", "./lab status")).next_step == "./lab status --lab shop"
    monkeypatch.setattr(sys, "argv", ["lab", "sql", "x"])
    assert cli._of_the_same_lab(LabError("x", "", "./lab status")).next_step == "./lab status"


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (("drill", "--probe", "http://x"), "./lab drill --lab NAME --probe URL"),
        (("drill", "semisync", "--lab", "shop"), "./lab drill --lab shop"),
        (("drill", "mine.yaml", "--drill", "kill"), "./lab drill"),
        (("sql", "source", "-e", "SELECT 1", "--file", "x.sql"), "./lab sql --help"),
        (("watch", "--format", "prometheus", "--duration", "1"), "./lab watch --help"),
        (("frobnicate",), "./lab --help"),
        (("compare", "nosuch.json", "other.json"), "./lab report --format baseline > nosuch.json"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_command_that_is_used_wrongly_says_what_to_type(lab, words, step):
    """Before it asks the Docker engine."""
    status, _, said = lab(*words)

    assert status == 2 and said.endswith(f"next: {step}\n"), said
