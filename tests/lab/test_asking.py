"""A user's question is answered by real servers, with every setting proved; what changes one meanwhile is seen."""

import json

import msgspec
import pytest
from replication_lab import experiments
from replication_lab import runs as running
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue
from replication_lab.world.journal import read
from replication_lab.world.mysql.semisync import SemiSync

from tests.lab.sabotage import judgement_of

# Other tests run at the same time: what is proved is looked at, and no verdict about speed.
BESIDE_OTHERS = ("--noise", "accept")


def summary_of(answer):
    """Return what a command printed as data; without any, what it said is the failure."""
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)


def found_in(told):
    """Return the folder that the command names."""
    return catalogue.ROOT / told.rpartition("record and report: ")[2].split()[0]


def asked(**vary):
    return experiments.asked(
        Question(topologies=["semisync"], vary={name: list(values) for name, values in vary.items()})
    )


def test_a_question_is_answered_with_each_setting_proved(command):
    """Variables, clients and replication vary in one run; each measurement proves that it had what it was asked for."""
    answer = command(
        *(
            "ask",
            "semisync",
            "--rtt",
            "10ms",
            "--duration",
            "1",
            "--runs",
            "3",
            "--margin",
            "100%",
            *BESIDE_OTHERS,
            "--json",
        ),
        *("--vary", "replication=async,semisync", "--set", "sync_binlog=100", "--set", "clients=2"),
        *("--set", "replica.innodb_flush_log_at_trx_commit=2"),
    )
    found = summary_of(answer)

    assert found["doubts"] == [], answer.stderr
    _, record = read(found_in(answer.stderr))
    fastest = [(m.case.partition(",")[0], m.figures["latency_min_ms"]) for m in record.measurements]
    # Also on a machine that is busy with other tests: a semi-synchronous commit waits, an asynchronous one does not.
    assert all(ms > 9 if case == "replication=semisync" else ms < 9 for case, ms in fastest)
    assert [row["changed"] for row in found["effects"]] == ["replication=semisync"]
    assert all(fault.seen for m in record.measurements if m.noise.quiet for fault in m.faults)
    for m in record.measurements:
        assert sum(each.commits for each in m.timeline.seconds) == m.figures["commits"]
        states = {stay.node: stay.view.says for stay in m.timeline.states}
        assert states["replica"] == "replicating"
        assert (states["source"] == "semi-sync ON") == ("semisync" in m.case)
    assert "Second by second" in (found_in(answer.stderr) / "report.html").read_text()


@pytest.mark.parametrize(
    ("vary", "said"),
    [
        ({"sink_binlog": ("0", "1")}, "sink_binlog"),
        ({"innodb_data_file_path": ("ibdata1",)}, "innodb_data_file_path cannot be set"),
        ({"source.max_connections": ("100", "999999999")}, "source changed max_connections=999999999 to "),
    ],
)
def test_what_a_server_does_not_take_is_refused_before_anything_is_measured(loaded, vary, said):
    """A variable that it does not know, one that the lab needs, and a value that it silently changes."""
    with pytest.raises(LabError) as refused:
        asked(**vary).prepare(loaded)

    assert said in refused.value.found


def test_a_variable_that_somebody_changes_during_the_load_is_unknown(loaded, tmp_path):
    """The sabotage: sync_binlog is set by another administrator."""

    def meddle(lab):
        lab.node("source").server().execute("SET GLOBAL sync_binlog = 7")

    judged, _ = judgement_of(asked(sync_binlog=("0", "1")), "throughput:sync_binlog=1", loaded, meddle, tmp_path)

    assert judged.verdict is Verdict.UNKNOWN
    assert "source has sync_binlog=" in judged.reason


def test_semisync_that_somebody_switches_off_is_unknown(loaded, tmp_path):
    """The sabotage: commits are fast, because none waits any more."""
    judged, _ = judgement_of(
        asked(replication=("async", "semisync")),
        "throughput:replication=semisync",
        loaded,
        lambda lab: SemiSync(lab.node("source").server()).set(False),
        tmp_path,
    )

    assert judged.verdict is Verdict.UNKNOWN
    assert "semi-sync" in judged.reason


@pytest.mark.long
def test_topologies_are_compared_each_on_its_own_engine(command):
    """A group of MySQL beside a source of MariaDB's: both are measured in the same rounds."""
    answer = command(
        "ask",
        "async,group",
        "--rtt",
        "10ms",
        "--duration",
        "1",
        "--runs",
        "3",
        "--margin",
        "100%",
        *BESIDE_OTHERS,
        "--json",
    )
    found = summary_of(answer)

    assert found["doubts"] == [], answer.stderr
    _, record = read(found_in(answer.stderr))
    assert {(m.engine, m.case) for m in record.measurements} == {
        ("mariadb", "topology=async"),
        ("mysql-8.0", "topology=group"),
    }
    assert not any(m.reasons_to_doubt for m in record.measurements if m.noise.quiet)
    assert [(row["engine"], row["changed"]) for row in found["effects"]] == [("mysql-8.0", "topology=group")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("topology", "engine", "rtt"),
    [
        *((name, "mariadb", "40ms") for name in ("async", "fanout", "semisync-3", "chain", "galera", "galera-2")),
        ("group", "mysql-8.0", "40ms"),
        *((name, "mariadb", "40ms") for name in ("drbd", "drbd-ha")),
        ("single", "mariadb", "0"),
    ],
)
def test_each_topology_that_can_be_asked_is_measured_with_its_proofs(command, topology, engine, rtt):
    """Those that docs/asking.md names."""
    answer = command(
        *("ask", topology, "--engine", engine, "--rtt", rtt, "--vary", "clients=1,4"),
        *("--duration", "1", "--runs", "3", "--margin", "100%", *BESIDE_OTHERS, "--json"),
    )
    found = summary_of(answer)

    assert found["doubts"] == [], answer.stderr
    _, record = read(found_in(answer.stderr))
    assert record.measurements and not any(m.reasons_to_doubt for m in record.measurements if m.noise.quiet)


@pytest.mark.long
def test_engines_are_compared_in_the_same_rounds(command):
    """Each measurement is made, and recorded, on the engine of its case; the record alone gives the same answer."""
    answer = command(
        *("ask", "semisync", "--vary", "engine=mariadb,mysql-8.0", "--rtt", "10ms"),
        *("--duration", "1", "--runs", "3", "--margin", "100%", *BESIDE_OTHERS, "--json"),
    )
    found, folder = json.loads(answer.stdout), found_in(answer.stderr)
    _, record = read(folder)

    assert found["doubts"] == [], answer.stderr
    assert {(m.engine, m.case) for m in record.measurements} == {(e, f"engine={e}") for e in ("mariadb", "mysql-8.0")}
    versions = {engine: record.lab(engine).version for engine in record.engines}
    assert "MariaDB" in versions["mariadb"] and versions["mysql-8.0"].startswith("8.0.")
    assert [(row["engine"], row["baseline"]) for row in found["effects"]] == [("mysql-8.0", "engine=mariadb")]
    assert json.loads(command("report", str(folder), "--json").stdout)["effects"] == found["effects"]


# --- what is lost -----------------------------------------------------------------------------------------------------


def drilled(command, topologies, runs, *others):
    """Ask for lose-source on these topologies; return the summary, and what was told meanwhile."""
    extent = ("--duration", "1", "--runs", "3", "--margin", "100%", "--drill-runs", str(runs))
    answer = command(
        "ask", topologies, "--rtt", "40ms", "--drill", "lose-source", *extent, *others, *BESIDE_OTHERS, "--json"
    )
    return summary_of(answer), answer.stderr


def assert_whole(found, told, runs):
    """Every drill was done on a lab with the round trip and the clients of the case, with all proofs, and is judged."""
    assert [row["not_proved"] for row in found["drilled"]] == [[]] * len(found["drilled"]), told
    assert all(len(row["drills"]) == row["lost"]["n"] == runs for row in found["drilled"])
    _, record = read(found_in(told))
    evidence = [each for each in record.events if isinstance(each, Evidence)]
    assert {proof.ok for each in evidence for proof in each.conditions} == {True}
    assert all(any("is 40ms" in proof.what for proof in each.conditions) for each in evidence)
    assert {each.drill.clients["source"] for each in evidence} == {8}
    assert msgspec.json.decode(msgspec.json.encode(running.judge(found_in(told)).drilled)) == found["drilled"]


@pytest.mark.long
def test_a_drill_of_a_question_is_done_under_its_conditions(command):
    """Asynchronous replication, once; its time without service has most of the 2 s until the replica is promoted."""
    found, told = drilled(command, "async", 1, "--clients", "8", "--set", "replica.sync_binlog=0")

    assert_whole(found, told, 1)
    assert 1.5 <= found["drilled"][0]["rto_s"]["low"] < 60


@pytest.mark.long
def test_what_is_lost_is_compared_between_topologies(command):
    """Some of three losses of an asynchronous source lose rows, none of a semi-synchronous one does."""
    found, told = drilled(command, "async,semisync", 3, "--clients", "8", "--claim", "lost[topology=semisync] <= 0")

    assert_whole(found, told, 3)
    first, second = found["drilled"]
    assert first["lost"]["high"] > 0 == second["lost"]["high"]
    assert next(claim for claim in found["claims"] if claim["id"] == "claim-1.1")["verdict"] == "HOLDS"


CHECKOUT = """SELECT name FROM item WHERE id = {id:1..100};
--
INSERT INTO orders (item) VALUES ({id:1..100});
UPDATE item SET stock = stock - 1 WHERE id = {id};
"""
SHOP = """CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20), stock INT);
CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, item INT);
INSERT INTO item SELECT seq, 'item', 1000000 FROM seq_1_to_100;
"""


@pytest.mark.long
def test_the_transactions_of_the_user_are_counted_as_lost(command, tmp_path):
    """Each has a row of the ledger in the same transaction, so that what is lost of it is lost of the user's tables."""
    (tmp_path / "checkout.sql").write_text(CHECKOUT)
    (tmp_path / "shop.sql").write_text(SHOP)
    load = ("--workload", str(tmp_path / "checkout.sql"), "--schema", str(tmp_path / "shop.sql"))
    found, told = drilled(command, "async", 1, "--clients", "8", "--ledger", *load)

    assert_whole(found, told, 1)
    (row,) = found["drilled"]
    assert row["counts"] == "transactions of the workload"
    assert row["drills"][0]["figures"]["acknowledged.source"] > 0
