"""Are servers restarted with what a question asks for, once for each change, and proved; and as before if refused?"""

import pytest
from replication_lab import experiments
from replication_lab.lab import start_options
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue

from tests.fakes.lab import FakeLab
from tests.fakes.world import FakeWorld

CLEANERS = {"innodb_page_cleaners": ["4", "1"]}
[A, B] = [
    GivenFile("a.cnf", "[mysqld]\ninnodb_read_io_threads = 8\n"),
    GivenFile("b.cnf", "[mysqld]\nsync-binlog = 0\n"),
]


def question(vary, **others) -> Question:
    return Question(**{"topologies": ["semisync"], "vary": vary} | others)


@pytest.fixture
def lab():
    return FakeLab(FakeWorld(), catalogue.topology("semisync"), "mariadb")


def of(**variables) -> StartOptions:
    return StartOptions(None, variables)


def test_a_variable_that_needs_a_restart_is_measured_with_its_proof(ran):
    """Each measurement proves it on both servers, beside one that is set while they run."""
    asked = question(CLEANERS, settings={"sync_binlog": "100"})
    _, record, _ = ran(experiments.asked(asked), preset="ask")

    for one in record.measurements:
        value = one.case.rpartition("=")[2]
        proved = {proof.what for proof in one.proofs if proof.ok}
        assert {f"{node} has innodb_page_cleaners={value}" for node in ("source", "replica")} <= proved
        assert {"source has sync_binlog=100", "replica has sync_binlog=100"} <= proved


def test_a_node_is_restarted_only_for_another_file(lab):
    """Twice the same options are one restart; a node without options keeps running."""
    wanted = {"source": of(innodb_page_cleaners="1"), "replica": StartOptions()}
    for _ in range(2):
        start_options.run_with(lab, wanted)
    assert lab.restarts == ["source"]

    start_options.run_with(lab, {"source": StartOptions(), "replica": StartOptions()})
    assert lab.restarts == ["source", "source"]
    assert lab.node("source").server().value("SELECT @@GLOBAL.innodb_page_cleaners") == "4"


def test_a_file_is_an_axis(ran):
    """The options of each are proved, and of a case without one nothing is left."""
    asked = question({"cnf": ["none", "a.cnf", "b.cnf"]}, cnf=[A, B])
    _, record, _ = ran(experiments.asked(asked), preset="ask")
    proved = {one.case: {proof.what for proof in one.proofs if proof.ok} for one in record.measurements}

    assert set(proved) == {"cnf=none", "cnf=a.cnf", "cnf=b.cnf"}
    assert "replica has innodb_read_io_threads=8 (a.cnf line 2)" in proved["cnf=a.cnf"]
    assert "source has sync_binlog=0 (b.cnf line 2)" in proved["cnf=b.cnf"]
    assert not any("line 2" in what for what in proved["cnf=none"])
    assert record.run.question == asked


def test_one_file_for_several_engines_gives_each_its_part(ran):
    """By the groups of their versions; each is proved on its own server."""
    both = GivenFile("both.cnf", "[mysqld-8.0]\ninnodb_read_io_threads = 8\n[mariadb]\ninnodb_read_io_threads = 6\n")
    engines = ("mysql-8.0", "mariadb")
    asked = question({"engine": list(engines)}, settings={"cnf": "both.cnf"}, cnf=[both])
    _, record, _ = ran(experiments.asked(asked), preset="ask", engines=engines)
    proved = {
        one.engine: [proof.what for proof in one.proofs if "source has" in proof.what] for one in record.measurements
    }

    assert proved == {
        "mysql-8.0": ["source has innodb_read_io_threads=8 (both.cnf line 2)"],
        "mariadb": ["source has innodb_read_io_threads=6 (both.cnf line 4)"],
    }


def test_a_nodes_own_file_goes_before_that_of_all(ran):
    """The replica has b.cnf and not a.cnf."""
    asked = question({"clients": ["1", "4"]}, settings={"replica.cnf": "b.cnf", "cnf": "a.cnf"}, cnf=[A, B])
    _, record, _ = ran(experiments.asked(asked), preset="ask")
    proved = {proof.what for proof in record.measurements[0].proofs if "line" in proof.what}

    assert proved == {"source has innodb_read_io_threads=8 (a.cnf line 2)", "replica has sync_binlog=0 (b.cnf line 2)"}


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (of(innodb_read_io_threads="1000"), "not in force: source has innodb_read_io_threads=1000, found 64"),
        (StartOptions(GivenFile("a.cnf", "[mysqld]\nno_such = 1\n")), "unknown variable 'no_such=1'"),
        (StartOptions(GivenFile("a.cnf", "[mysqld]\nloose-no_such=1\n")), "source has no_such=1 (a.cnf line 2), found"),
        (of(datadir="/tmp"), "datadir cannot be set"),
    ],
)
def test_what_a_server_does_not_take_is_refused_and_all_is_as_before(lab, wanted, said, refused):
    """A value that it changes, an option that it does not start with or ignores, one that the lab needs."""
    start_options.run_with(lab, {"replica": of(innodb_page_cleaners="1")})

    assert said in refused(start_options.run_with, lab, {"source": wanted, "replica": StartOptions()}).found
    assert [lab.node(node).text_of(start_options.PATHS[-1]) for node in ("source", "replica")] == [
        "",
        "[mysqld]\ninnodb_page_cleaners = 1\n",
    ]
    assert all(lab.node(node).is_healthy() for node in ("source", "replica"))
    assert lab.node("replica").server().value("SELECT @@GLOBAL.innodb_page_cleaners") == "1"


def test_a_server_that_ignores_its_file_is_refused(lab, refused):
    """The sabotage: it starts, and says that it has another value."""
    lab.deaf = True

    error = refused(start_options.run_with, lab, {"source": of(innodb_page_cleaners="1"), "replica": StartOptions()})

    assert "not in force: source has innodb_page_cleaners=1, found 4" in error.found


def test_a_machine_is_not_restarted(refused):
    """A restart of its server would be one of the machine."""
    lab = FakeLab(FakeWorld(), catalogue.topology("drbd"), "mariadb")

    assert (
        "run in virtual machines" in refused(start_options.run_with, lab, {"node1": of(innodb_page_cleaners="1")}).found
    )


def test_an_option_that_somebody_changes_meanwhile_makes_it_unknown(ran):
    """The sabotage: another administrator sets the variable of a file during the load."""

    def meddle(lab, _load):
        lab.node("replica").server().set_global(sync_binlog=7)

    asked = question({"cnf": ["none", "b.cnf"]}, cnf=[B])
    summary, _, _ = ran(experiments.asked(asked), preset="ask", meanwhile=meddle)

    assert summary.verdict == "UNKNOWN"
    assert all("replica has sync_binlog=0 (b.cnf line 2)" in claim.reason for claim in summary.claims)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"vary": {"cnf": ["none", "c.cnf"]}, "cnf": [A]}, "unknown file of the setting cnf 'c.cnf'"),
        ({"vary": {"cnf": ["none", "a.cnf"]}, "cnf": [A, B]}, "no setting uses the file b.cnf"),
        ({"vary": {"cnf": ["none", "a.cnf"]}, "cnf": [A, A]}, "two files are called a.cnf"),
        ({"vary": {"far.cnf": ["none", "a.cnf"]}, "cnf": [A]}, "semisync has no node 'far'"),
        ({"topologies": ["drbd"], "vary": {"cnf": ["none", "a.cnf"]}, "cnf": [A]}, "cnf: the servers of drbd run in"),
        ({"vary": {"cnf": ["none", "b.cnf"], "sync_binlog": ["0"]}, "cnf": [B]}, "set by an option and by b.cnf"),
        ({"vary": {"cnf": ["a.cnf"]}, "cnf": [GivenFile("a.cnf", "[mysqld]\nport = 1\n")]}, "a.cnf line 2: port"),
    ],
)
def test_a_file_that_cannot_be_is_refused_before_anything_starts(asked, said, refused):
    """One message."""
    assert said in refused(lambda: experiments.asked(question(**asked))).found


def test_the_fewest_cases_have_every_value():
    """Each value is tried before anything is measured; a restart is as slow for one as for several."""
    asked = question({"a": ["1", "2", "3"], "b": ["4", "5"]}, settings={"c": "6"})

    assert list(asked.trials()) == [{"c": "6", "a": a, "b": b} for a, b in (("1", "4"), ("2", "5"), ("3", "5"))]
