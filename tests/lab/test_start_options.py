"""Real servers are restarted with what a question asks for, and run as before where they refuse it."""

import json
import secrets

import pytest
from replication_lab import experiments, replication
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import images, project

from tests.lab.conftest import things_of
from tests.lab.sabotage import judgement_of

# back_log needs a restart on every engine.
CNF = GivenFile("a.cnf", "[mysqld]\nsync-binlog = 3 # of the file\nloose-innodb_read_io_threads = '7'\n")
BOTH = {"cnf": ["none", "a.cnf"], "back_log": ["60"]}


def asked(vary, topology="semisync", engine="mariadb", **others):
    return experiments.asked(Question(topologies=[topology], engine=engine, vary=vary, **others))


def proved(experiment, lab):
    """Arrange each case; return what its proofs say of the servers' settings."""
    experiment.prepare(lab)
    found = {}
    for case in experiment.cases:
        with experiment.arrange(lab, case) as watch:
            told = watch.proofs(0)
        assert [proof for proof in told if " has " in proof.what and not proof.ok] == []
        found[case.name] = {proof.what for proof in told if " has " in proof.what}
    return found


def test_options_need_a_restart_and_a_refused_one_changes_nothing(loaded):
    """If a server does not start, the error has the server's message, and both then run with their previous options."""
    found = proved(asked({"cnf": ["a.cnf"], "back_log": ["60"]}, cnf=[CNF]), loaded)

    for node in ("source", "replica"):
        assert {f"{node} has sync_binlog=3 (a.cnf line 2)", f"{node} has back_log=60"} < found["cnf=a.cnf,back_log=60"]
    bad = asked({"source.cnf": ["bad.cnf", "none"]}, cnf=[GivenFile("bad.cnf", "[mysqld]\nno-such-option = 1\n")])
    with pytest.raises(LabError, match=r"source did not start.*\n.*unknown variable 'no-such-option=1'"):
        bad.prepare(loaded)
    for node in ("source", "replica"):
        assert loaded.node(node).server().settings("back_log", "sync_binlog") == {"back_log": "60", "sync_binlog": "3"}
    assert replication.of(loaded).differences() == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loose-no-such-option = 1", "source has no_such_option=1 (a.cnf line 2), found error (1193"),
        ("innodb_read_io_threads = 1000", "source has innodb_read_io_threads=1000 (a.cnf line 2), found 64"),
        ("innodb_page_size = 8k", "did not start with these options"),
    ],
)
def test_what_a_server_ignores_changes_or_does_not_start_with_is_refused(loaded, text, said):
    """The last one would need another data directory."""
    with pytest.raises(LabError) as refused:
        asked({"cnf": ["a.cnf", "none"]}, cnf=[GivenFile("a.cnf", f"[mysqld]\n{text}\n")]).prepare(loaded)

    assert said in refused.value.found
    assert replication.of(loaded).differences() == []


@pytest.mark.long
def test_an_option_that_somebody_changes_during_the_load_is_unknown(loaded, tmp_path):
    """The sabotage: another administrator sets the variable that the file set."""
    judged, _ = judgement_of(
        asked({"cnf": ["none", "a.cnf"]}, cnf=[CNF]),
        "throughput:cnf=a.cnf",
        loaded,
        lambda lab: lab.node("replica").server().set_global(sync_binlog=7),
        tmp_path,
    )

    assert judged.verdict is Verdict.UNKNOWN
    assert "replica has sync_binlog=3 (a.cnf line 2)" in judged.reason


@pytest.mark.long
@pytest.mark.parametrize(
    ("topology", "engine", "vary"),
    [
        # Set while it runs, or not, by its value.
        ("semisync", "mysql-8.0", {"innodb_doublewrite": ["ON", "OFF"], "performance_schema": ["ON", "OFF"]}),
        ("semisync", "mysql-5.5", BOTH),
        ("async", "mariadb-10.1", BOTH),
        *((name, "mariadb", BOTH) for name in ("async", "fanout", "semisync-3", "chain", "galera", "galera-2")),
        ("group", "mysql-8.0", {"innodb_purge_threads": ["1", "2"], "cnf": ["a.cnf"]}),
        ("single", "mariadb", BOTH),
    ],
)
def test_the_servers_of_each_topology_are_restarted_and_replicate_again(docker, topology, engine, vary):
    """Each case's settings are proved on every server, and the copies are equal afterwards."""
    found = catalogue.topology(topology)
    images.ensure(up.image_names(engine, load=True, topology=found))
    lab = project.start(LabRequest(found, engine, f"test-{secrets.token_hex(4)}", load=True))
    files = [CNF] if "cnf" in vary else []
    try:
        for case, told in proved(asked(vary, topology, engine, cnf=files), lab).items():
            for node in found.nodes:
                settings = [setting for setting in case.split(",") if not setting.startswith("cnf=")]
                assert {f"{node.name} has {setting}" for setting in settings} <= told
                assert (f"{node.name} has sync_binlog=3 (a.cnf line 2)" in told) == ("cnf=a.cnf" in case)
        assert replication.of(lab).differences() == []
    finally:
        with signals.signals_held():
            lab.down()


@pytest.mark.long
def test_a_node_of_a_cluster_that_does_not_start_is_told_by_its_own_words(whole):
    """Not by its library's, and the cluster is whole again."""
    bad = GivenFile("bad.cnf", "[mysqld]\nno-such-option = 1\n")

    with pytest.raises(LabError, match="unknown variable 'no-such-option=1'"):
        asked({"node2.cnf": ["bad.cnf", "none"]}, "galera", cnf=[bad]).prepare(whole)
    assert replication.of(whole).differences() == []
    assert all(map(replication.of(whole).stands, replication.of(whole).names))


@pytest.mark.long
def test_a_lab_keeps_the_options_that_it_was_started_with(command, name, tmp_path):
    """Also after a node is started again; a value that another administrator changed is shown."""
    (tmp_path / "own.cnf").write_text("[mysqld]\ninnodb_read_io_threads = 8\n")
    given = ("--set", "back_log=60", "--set", "replica.sync_binlog=0", "--cnf", f"source={tmp_path / 'own.cnf'}")

    def settings():
        (lab,) = json.loads(command("status", "--lab", name, "--json").stdout)
        return {setting["what"]: setting["found"] for setting in lab["settings"]}

    started = command("up", "semisync", "--lab", name, *given)
    assert "verified: replica has sync_binlog=0" in started.stderr, started.stderr
    command("stop", "replica", "--lab", name)
    command("start", "replica", "--lab", name)
    assert settings() == {
        "source has innodb_read_io_threads=8 (own.cnf line 2)": "8",
        "source has back_log=60": "60",
        "replica has back_log=60": "60",
        "replica has sync_binlog=0": "0",
    }
    command("sql", "replica", "--lab", name, "-e", "SET GLOBAL sync_binlog = 9")
    assert settings()["replica has sync_binlog=0"] == "9"
    assert "replica has sync_binlog=0  not in force: 9" in command("status", "--lab", name).stdout
    assert "already running with other options" in command("up", "semisync", "--lab", name, "--set", "x=1").stderr


@pytest.mark.long
def test_a_lab_whose_server_refuses_an_option_is_removed(command, name):
    """The error has the server's message, and the lab is removed."""
    refused = command("up", "async", "--lab", name, "--set", "no_such_variable=1")

    assert refused.returncode == 2
    assert "unknown variable 'no_such_variable=1'" in refused.stderr
    assert things_of(name) == []
