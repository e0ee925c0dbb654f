"""Do the options of everyday commands act on real servers, and is their failure seen?"""

import json

import pytest
from replication_lab import experiments
from replication_lab.model.errors import LabError
from replication_lab.model.only import Only
from replication_lab.world import catalogue
from replication_lab.world.journal import read


def semisync_wan(settings):
    """Return semisync_wan with one case and these variables."""
    return experiments.chosen(experiments.load("semisync_wan"), "least", settings, Only(cases=["none"]))


def test_a_variable_of_lab_run_is_proved_over_the_load(loaded):
    """Set on every server, read back after the load, and as before afterwards; another administrator's is seen."""
    found, source = semisync_wan({"sync_binlog": "100"}), loaded.node("source").server()
    before = source.settings("sync_binlog")
    with found.arrange(loaded, found.case("none")) as watch:
        told = {proof.what: proof.ok for proof in watch.proofs(0)}
        source.set_global(sync_binlog=7)
        failed = [proof.what for proof in watch.proofs(0) if not proof.ok]

    assert told["source has sync_binlog=100"] and told["replica has sync_binlog=100"]
    assert failed == ["source has sync_binlog=100"]
    assert source.settings("sync_binlog") == before


def test_a_variable_that_a_server_does_not_take_ends_the_run_before_its_first_round(loaded):
    """When the experiment is prepared."""
    with pytest.raises(LabError) as refused:
        semisync_wan({"sink_binlog": "1"}).prepare(loaded)

    assert "sink_binlog" in refused.value.found


@pytest.mark.long
def test_a_part_of_an_experiment_is_run_and_judged_again(command):
    """Cases, rounds and a variable by the command line; the record alone gives the same verdicts."""
    answer = command(
        *("run", "semisync_wan", "--preset", "least", "--rounds", "3", "--json", "--set", "sync_binlog=1"),
        *("--case", "after-commit-85ms-1", "--claim", "link-is-85ms"),
    )
    found, again = json.loads(answer.stdout), json.loads(command("judge", "latest", "--json").stdout)
    _, record = read(catalogue.ROOT / answer.stderr.rpartition("record and report: ")[2].split()[0])

    assert {measured.case for measured in record.measurements} == {"after-commit-85ms-1"}
    assert max(measured.round for measured in record.measurements) <= 3
    assert all(proof.ok for measured in record.measurements for proof in measured.proofs)
    assert [claim["id"] for claim in found["claims"]] == ["link-is-85ms"]
    assert found["conditions"] == {"sync_binlog": "1"} and again["claims"] == found["claims"]
