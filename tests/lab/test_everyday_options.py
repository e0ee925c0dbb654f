"""Do the options of everyday commands act on real servers, and is their failure seen?"""

import gzip
import json

import pytest
from replication_lab import experiments
from replication_lab.lab import sql_files
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.record.chosen import Only
from replication_lab.world import catalogue
from replication_lab.world.journal import read
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

from tests.lab.conftest import things_of


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
        *(
            "run",
            "semisync_wan",
            "--preset",
            "least",
            "--runs",
            "3",
            "--noise",
            "accept",
            "--json",
            "--set",
            "sync_binlog=1",
        ),
        *("--case", "after-commit-85ms-1", "--claim", "link-is-85ms"),
    )
    run = answer.stderr.rpartition("record and report: ")[2].split()[0]
    found, again = json.loads(answer.stdout), json.loads(command("report", run, "--json").stdout)
    _, record = read(catalogue.ROOT / run)

    assert {measured.case for measured in record.measurements} == {"after-commit-85ms-1"}
    assert max(measured.round for measured in record.measurements) <= 3
    assert all(proof.ok for measured in record.measurements for proof in measured.proofs)
    assert [claim["id"] for claim in found["claims"]] == ["link-is-85ms"]
    assert found["conditions"] == {"sync_binlog": "1"} and again["claims"] == found["claims"]


def test_a_file_of_sql_is_run_up_to_the_statement_that_fails(loaded):
    """A procedure and another database too; the replica has what was run, and is refused itself."""
    source = loaded.node("source").server()
    made = "CREATE DATABASE shop; USE shop;\nCREATE TABLE t (a INT PRIMARY KEY);\nDELIMITER //\n"
    made += "CREATE PROCEDURE p() BEGIN INSERT INTO t VALUES (3); END//\nDELIMITER ;\nCALL p();\n"

    sql_files.load(loaded, "source", GivenFile("shop.sql", made))
    with pytest.raises(LabError) as failed:
        sql_files.load(loaded, "source", GivenFile("more.sql", "USE shop;\nINSERT INTO t VALUES (4);\nCALL p();\n"))
    with pytest.raises(LabError) as refused:
        sql_files.load(loaded, "replica", GivenFile("shop.sql", made))
    replica = Replica(loaded.node("replica").server())
    replica.wait_for(BinaryLog(source).position())

    assert failed.value.found.startswith("more.sql line 3, `CALL p()`, on source failed")
    assert "read-only replica" in refused.value.found
    assert replica.server.value("SELECT GROUP_CONCAT(a) FROM shop.t") == "3,4"
    source.execute("DROP DATABASE shop")


@pytest.mark.long
def test_files_are_run_at_a_labs_first_start(command, name, tmp_path):
    """The replica has the rows when the lab is up; a statement that fails leaves no lab."""
    good, bad = tmp_path / "good.sql.gz", tmp_path / "bad.sql"
    good.write_bytes(gzip.compress(b"CREATE TABLE t (a INT);\nINSERT INTO t VALUES (1),(2);\n"))
    bad.write_text("CREATE TABLE t (a INT);\nINSERT INTO missing VALUES (1);\n")
    failed = command("up", "semisync", "--lab", name, "--init", str(bad))

    assert failed.returncode == 2 and "bad.sql line 2" in failed.stderr
    assert things_of(name) == []
    assert command("up", "semisync", "--lab", name, "--init", str(good)).returncode == 0
    found = command("sql", "replica", "-e", "SELECT COUNT(*) n FROM t", "--lab", name, "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == [{"n": 2}]
