"""Does --against measure two servers in the same rounds, and find the slower one?"""

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab import runs as running
from replication_lab.model.against import Against
from replication_lab.model.errors import LabError
from replication_lab.model.only import Only
from replication_lab.model.verdict import Verdict

CASE = "none"
CLAIM = f"against:{CASE}"
OTHER = "mariadb-10.11"


def chosen(margin=0.1):
    """Return one case of semisync_wan, measured against another engine."""
    known = experiments.load("semisync_wan")
    return experiments.chosen(known, "least", {}, Only(cases=[CASE]), Against(server=OTHER, margin=margin))


def test_both_servers_are_measured_in_the_same_rounds(ran):
    """Each round has both, so that what drifts meets both."""
    summary, record, world = ran(chosen(), [OTHER, "mariadb"], preset="least")
    rounds = {(found.round, found.engine) for found in record.measurements}

    assert {(1, OTHER), (1, "mariadb"), (2, OTHER), (2, "mariadb")} <= rounds
    assert world.came_up == [OTHER, "mariadb"]
    claim = next(claim for claim in summary.claims if claim.id == CLAIM)
    assert (claim.engine, claim.verdict) == ("mariadb", Verdict.HOLDS)
    assert claim.measured == pytest.approx(1, abs=0.1)


def test_the_other_server_is_not_compared_with_itself(ran):
    """It is the reference; its own claims are judged."""
    summary, _, _ = ran(chosen(), [OTHER, "mariadb"], preset="least")

    assert [left.reason for left in summary.not_judged if left.claim == CLAIM] == [
        f"{OTHER} is the reference of the comparison"
    ]


def test_a_slower_server_is_refuted(ran):
    """If the claim demands nine times the other server's commits, the run ends with status 1."""
    known = chosen()
    demanding = [
        claim if claim.id != CLAIM else type(claim)(claim.id, claim.sentence, claim.relation.quantity.at_least(9))
        for claim in known.claims
    ]
    summary, _, _ = ran(type(known)(**{**vars(known), "claims": tuple(demanding)}), [OTHER, "mariadb"], preset="least")

    assert summary.exit_code == 1


def test_a_record_is_judged_again_against_the_same_server(ran, runs):
    """The record alone has the server that was compared with, and the margin."""
    summary, record, _ = ran(chosen(0.2), [OTHER, "mariadb"], preset="least")
    again = running.judge("latest")

    assert record.run.against == Against(server=OTHER, margin=0.2)
    assert [(claim.id, claim.engine, claim.verdict) for claim in again.claims] == [
        (claim.id, claim.engine, claim.verdict) for claim in summary.claims
    ]
    assert "at least 80%" in next(claim.sentence for claim in again.claims if claim.id == CLAIM)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["semisync_wan", "--against", "mariadb"], "compares mariadb with itself"),
        (["semisync_wan", "--against", "mariadb-10.11", "--margin", "0%"], "--margin"),
        (["semisync_wan", "--against", "mariadb-10.11", "--margin", "much"], "not a percentage"),
        (["temporary_tables", "--against", "mariadb"], "compares engines already"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_starts(arguments, message):
    """One message, and no Docker call: a unit test would fail at it."""
    ended = CliRunner().invoke(cli.cli, ["run", *arguments], prog_name="lab")

    assert isinstance(ended.exception, LabError)
    assert message in str(ended.exception)
