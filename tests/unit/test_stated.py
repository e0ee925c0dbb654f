"""Are the cases and claims of a YAML file those that Python makes, and is a text that states none refused?"""

import pytest
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.experiment import stated
from replication_lab.model.experiment.case import Case, LabSpec
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.published import parse_data
from replication_lab.model.experiment.quantities import (
    ErrorShare,
    Figure,
    Loops,
    PerRoundTrip,
    Sum,
    Total,
    p50,
    rtt,
    throughput,
)
from replication_lab.model.experiment.stated import parse_relation
from replication_lab.model.lab.storage import Storage
from replication_lab.model.question.server_options import CaseState

RELATIONS = {
    "throughput(far) / throughput(near) ≥ 0.9": throughput("far") / throughput("near") >= 0.9,
    "throughput(far) <= 200": throughput("far") <= 200,
    "latency_p50_ms(far) / rtt_p50_ms(far) in 0.95–1.05": (p50("far") / rtt("far")).equals(within=0.05),
    "throughput(far) known within ±10 %": throughput("far").known(within=0.1),
    "errors(far) ≤ 0.01": ErrorShare("far", "errors") <= 0.01,
    "throughput(far) / (16/rtt_min_ms(far)) ≥ 0.8": (throughput("far") / PerRoundTrip("far", 16, "rtt_min_ms") >= 0.8),
    "(average_loops(a) + average_loops(b of mysql)) / max_ms(a) ≥ 2.0": (
        Sum((Loops("a", "average_ms"), Loops("b", "average_ms", "mysql"))) / Figure("a", "max_ms") >= 2.0
    ),
    "lost_updates(far) = 0 in ≥ 30 commits": Total("far", "lost_updates").is_zero(trials="commits", at_least=30),
    "quiet kept_up(far) = 0 in ≥ 3 loads": Total("far", "kept_up", quiet=True).is_zero(trials="loads", at_least=3),
    "deadlocks(far) > 0": Total("far", "deadlocks").is_positive(),
}


def claims(text, **words):
    return list(stated.claims(parse_data(text).claims, words))


def test_a_case_has_the_disks_that_it_names():
    """They are those of its lab, so it names the lab's topology as well."""
    data = "cases: {slow: {topology: single, storage: {server: sata-7200}}}"
    (found,) = stated.cases(parse_data(data).cases, {})

    assert found.lab == LabSpec("single", storage=(("server", Storage(level="single", disk="sata-7200")),))
    with pytest.raises(LabError, match="case slow has the key storage and no topology"):
        list(stated.cases(parse_data(data.replace("topology: single, ", "")).cases, {}))


def test_a_case_has_a_lab_whose_servers_start_with_its_variables():
    """As a file that is named after them."""
    (found,) = stated.cases(parse_data("cases: {one: {topology: group, start: {a: 'ON'}}}").cases, {})

    assert found.lab == LabSpec("group", cnf=GivenFile("a=ON", "[mysqld]\na = ON\n"))


def test_a_case_is_made_for_each_combination_of_rows():
    """A text that is nothing but a word has the word's value, a number or a list."""
    data = parse_data(
        """
        cases:
          "{point}-{at}":
            each: [[{point: after-sync, needs: [wait_point]}, {point: after-commit, needs: []}], distances]
            about: "{point}, {at}"
            needs: "{needs}"
            links: {source-replica: "{at}"}
            state: {replication: semisync, clients: "{n}"}
            settings: {path: [direct, "{at}"]}
        """
    )
    found = list(stated.cases(data.cases, {"distances": [{"at": "lan", "n": 4}, {"at": "85ms", "n": 1}]}))

    points = ("after-sync", "after-commit")
    assert [case.name for case in found] == [f"{point}-{at}" for point in points for at in ("lan", "85ms")]
    assert found[0] == Case(
        "after-sync-lan",
        "after-sync, lan",
        {"path": ["direct", "lan"]},
        frozenset({"wait_point"}),
        state=CaseState("semisync", 4),
        links={"source-replica": "lan"},
    )


def test_a_case_with_a_state_that_none_has_is_refused():
    """With the name of the case."""
    data = parse_data("cases: {a: {state: {clients: many}}}")
    with pytest.raises(LabError, match="case a: Expected `int`, got `str`"):
        list(stated.cases(data.cases, {}))


@pytest.mark.parametrize("text", RELATIONS)
def test_a_relation_is_what_its_text_says(text):
    """Each form that docs/statistics.md names."""
    assert parse_relation(text) == RELATIONS[text]


@pytest.mark.parametrize("name", experiments.names())
def test_a_report_shows_a_relation_as_it_may_be_written(name):
    """What a report shows of a shipped claim can be copied into a file."""
    for claim in experiments.load(name).claims:
        text = claim.relation.text
        assert parse_relation(text).text == text


@pytest.mark.parametrize("text", ["throughput(far)", "throughput(far) > 1 0", "far ≥ 1", "≥ 1", "lost(a) = 0", ""])
def test_a_text_that_states_nothing_is_refused(text):
    """With the forms that there are."""
    with pytest.raises(LabError, match="cannot be read"):
        parse_relation(text)


def test_a_claim_is_made_for_each_combination_of_rows():
    """A row's words may themselves name words."""
    found = claims(
        """
        claims:
          "{case}-{n}-pipeline":
            each: [[{case: near}, {case: "{far}"}], [{n: 4, least: 0.9}, {n: 16, least: 0.8}]]
            sentence: "{n} clients, {case}"
            relation: throughput({case}-{n}) ≥ {least}
            predicted: bound
            law: true
        """,
        far="40ms",
        bound=2.0,
    )

    assert [claim.id for claim in found] == [
        "near-4-pipeline",
        "near-16-pipeline",
        "40ms-4-pipeline",
        "40ms-16-pipeline",
    ]
    assert found[3] == Claim("40ms-16-pipeline", "16 clients, 40ms", throughput("40ms-16") >= 0.8, None, 2.0, law=True)


def test_entries_with_the_same_rows_come_row_by_row():
    """The published value of one of them does not part them."""
    found = claims(
        """
        claims:
          "{case}-fast": {each: [cases], sentence: fast, relation: "throughput({case}) ≥ 1"}
          near-fast: {published: 0.9}
          "{case}-safe": {each: [cases], sentence: safe, relation: "lost({case}) = 0 in ≥ 30 commits"}
          whole: {sentence: whole, relation: throughput(near) ≥ 2}
        """,
        cases=[{"case": "near"}, {"case": "far"}],
    )

    assert [claim.id for claim in found] == ["near-fast", "near-safe", "far-fast", "far-safe", "whole"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            "{sentence: '{fat}', relation: throughput(near) ≥ 1}",
            "an experiment's data 'fat'; did you mean far?",
        ),
        ("{each: [rows], sentence: x, relation: throughput(near) ≥ 1}", "unknown word in an experiment's data 'rows'"),
        ("{sentence: x, relation: throughput(near) ≥ 1, predicted: law}", "unknown word in an experiment's data 'law'"),
        ("{sentence: '{', relation: throughput(near) ≥ 1}", "cannot be filled in"),
    ],
)
def test_a_word_that_there_is_not_is_refused(entry, said):
    """With the nearest one that there is."""
    with pytest.raises(LabError) as error:
        claims(f"claims: {{a: {entry}}}", far="40ms")

    assert said in str(error.value)


def test_what_was_published_stays_with_the_claim_of_its_name():
    """An entry of many claims has no value of its own."""
    data = parse_data(
        "claims: {a: {published: 0.9}, '{b}': {sentence: x, relation: 'throughput(near) ≥ 1'}}"
    ).of_claims()

    assert {name: found.published for name, found in data.claims.items()} == {"a": 0.9}
