"""Does `lab ask --case` measure only the combinations that are given, each on its own servers?"""

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments, runs
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.question import Question

OLD = GivenFile("old.cnf", "[mysqld]\ninnodb_read_io_threads = 8\n")
NEW = GivenFile("new.cnf", "[mysqld]\nsync_binlog = 5\n")
PAIRS = [{"engine": "mysql-5.7", "cnf": "old.cnf"}, {"engine": "mysql-8.0", "cnf": "new.cnf"}]
VARY = {"engine": ["mysql-5.7", "mysql-8.0"], "cnf": ["old.cnf", "new.cnf"]}


def question(**others) -> Question:
    usual = {"topologies": ["semisync"], "vary": VARY, "cases": PAIRS, "cnf": [OLD, NEW]}
    return Question(**{**usual, "rounds": 3, "margin": 1.0, "seconds": 1, **others})


def test_only_the_given_combinations_are_cases():
    """With every value of another setting."""
    asked = question(vary={**VARY, "clients": ["1", "4"]})

    assert list(asked.combinations()) == [{**pair, "clients": clients} for pair in PAIRS for clients in ("1", "4")]
    assert asked.number_of_cases == 4
    assert [effect.baseline for effect in question().effects()] == ["engine=mysql-5.7,cnf=old.cnf"]


def test_each_servers_file_is_tried_and_measured_on_it_alone(ran):
    """The file of the other server is not put on it, not even before the first round."""
    _, record, _ = ran(experiments.asked(question()), preset="ask", engines=("mysql-5.7", "mysql-8.0"))
    proved = {one.engine: {proof.what for proof in one.proofs if " line " in proof.what} for one in record.measurements}

    assert proved == {
        "mysql-5.7": {f"{node} has innodb_read_io_threads=8 (old.cnf line 2)" for node in ("source", "replica")},
        "mysql-8.0": {f"{node} has sync_binlog=5 (new.cnf line 2)" for node in ("source", "replica")},
    }


def test_a_claim_names_a_case_by_any_of_its_values():
    """The other settings of that case follow."""
    asked = question(claims=["throughput[engine=mysql-8.0] / throughput[cnf=old.cnf] >= 0.9"])
    claims = [claim for claim in experiments.asked(asked).claims if claim.id.startswith("claim-")]

    assert [set(claim.relation.cases) for claim in claims] == [
        {"engine=mysql-8.0,cnf=new.cnf", "engine=mysql-5.7,cnf=old.cnf"}
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"cases": [PAIRS[0], {"engine": "mysql-8.0"}]}, "--case names engine,cnf and engine"),
        ({"cases": [PAIRS[0], PAIRS[0]]}, "--case engine=mysql-5.7,cnf=old.cnf is given twice"),
        ({"cases": [PAIRS[0]]}, "engine has values in vary that no case has"),
        ({"baseline": {"engine": "mysql-8.0"}}, "the baseline engine=mysql-8.0 is no --case"),
        (
            {"claims": ["throughput[engine=mysql-8.0,cnf=old.cnf] >= 1"]},
            "the case [engine=mysql-8.0,cnf=old.cnf] of a claim is none of --case",
        ),
    ],
)
def test_cases_that_cannot_be_are_refused(asked, said, refused):
    """One message."""
    assert said in refused(lambda: experiments.asked(question(**asked))).found


def test_files_are_paired_with_engines_on_the_command_line(monkeypatch, tmp_path):
    """As the recipes show it."""
    asked = []
    monkeypatch.setattr(runs, "run", lambda request, _tell: asked.append(request.experiment.asked) or 1 / 0)
    for file in (OLD, NEW):
        (tmp_path / file.name).write_text(file.text)
    monkeypatch.chdir(tmp_path)
    pairs = ("--case", "engine=mysql-5.7,cnf=old.cnf", "--case", "engine=mysql-8.0,cnf=new.cnf")
    CliRunner().invoke(cli.cli, ["ask", "semisync", *pairs], prog_name="lab")
    twice = CliRunner().invoke(cli.cli, ["ask", "semisync", *pairs, "--vary", "engine=mariadb"], prog_name="lab")

    assert (asked[0].cases, asked[0].vary, asked[0].cnf) == (PAIRS, VARY, [OLD, NEW])
    assert "--case and --vary both name engine" in str(twice.exception)
