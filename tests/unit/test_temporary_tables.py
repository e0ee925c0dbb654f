"""Does temporary_tables compare servers by what they counted, and doubt what did not go to disk?"""

from dataclasses import replace

import pytest
from replication_lab import experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.experiment import ComparisonTable
from replication_lab.report import wording
from replication_lab.workloads.mysqlslap import Slap
from replication_lab.world import catalogue

from tests.fakes import troubles
from tests.fakes.parts import LabOfNames
from tests.fakes.slap import CHOICE

KNOWN = experiments.load("temporary_tables")
ENGINES = ["mysql-5.5", "mysql-8.0", "mariadb"]
PUBLISHED = {"sort_1-aria": 5547, "sort_1-myisam": 1803, "sort_id-aria": 4359, "sort_id-myisam": 1146}


def verdicts(summary, engine):
    return {claim.id: claim.verdict for claim in summary.claims if claim.engine == engine}


def doubts(record, engine, case):
    """Return the doubts about a case, as one text."""
    return "; ".join(record.doubts(engine, record.of(engine, case)))


# --- engines beside each other ----------------------------------------------------------------------------------------


def test_a_claim_about_one_engine_is_decided_by_two(ran):
    """In the model Aria takes 3.5 times as long as MyISAM of MySQL 5.5, and seven times as long as InnoDB of 8.0."""
    summary, _, _ = ran(KNOWN, ENGINES)
    found = verdicts(summary, "mariadb")

    assert found["aria-2-times-slower-than-mysql-5.5"] is Verdict.HOLDS
    assert found["sort_1-aria-over-mysql-8.0"] is Verdict.HOLDS
    assert found["sort_id-aria-faster-than-mysql-5.5"] is Verdict.REFUTED
    claim = next(each for each in summary.claims if each.id == "aria-2-times-slower-than-mysql-5.5")
    assert claim.measured == pytest.approx(3.5, rel=0.02)


def test_all_servers_are_up_at_once_and_take_turns(ran):
    """Each round measures every engine's cases in one shuffled order, so that what drifts hits all alike."""
    _, record, world = ran(KNOWN, ENGINES)
    first = [measurement.engine for measurement in record.measurements if measurement.round == 1]

    assert world.came_up == ENGINES and sorted(world.taken_down) == sorted(ENGINES)
    assert first != sorted(first, key=first.index), "one engine after the other is no turn"
    assert {m.round for m in record.of("mariadb", "sort_1-aria")} == {
        m.round for m in record.of("mysql-5.5", "sort_1-myisam")
    }


def test_the_engine_that_others_are_compared_with_is_not_judged_against_itself(ran):
    """It is left out with the reason, as are claims about what an engine does not have."""
    summary, _, _ = ran(KNOWN, ENGINES)
    reasons = {(left.engine, left.claim): left.reason for left in summary.not_judged}

    claim = "sort_1-aria-faster-than-mysql-5.5"
    assert reasons["mysql-5.5", claim].endswith("mysql-5.5 is the reference of the comparison")
    assert reasons["mysql-8.0", claim].endswith("mysql-8.0 has no tmp_aria")


def test_without_the_other_engine_nothing_is_claimed(ran):
    """One engine alone says nothing about two."""
    summary, _, _ = ran(KNOWN, ["mariadb"])
    left = next(each for each in summary.not_judged if each.claim == "sort_1-aria-faster-than-mysql-5.5")

    assert left.reason.endswith("mysql-5.5, with which it is compared, is not part of this run")
    assert set(verdicts(summary, "mariadb")) == {"aria-own-slap-says-the-same"}


def test_a_doubt_about_the_reference_is_a_doubt_about_the_comparison(ran):
    """What did not go to disk on MySQL 5.5 makes MariaDB's ratio worthless too."""

    def only_there(lab, load):
        if lab.engine == "mysql-5.5":
            troubles.keep_in_memory(lab, load)

    summary, _, _ = ran(KNOWN, ENGINES, meanwhile=only_there)
    found = verdicts(summary, "mariadb")

    assert found["sort_1-aria-faster-than-mysql-5.5"] is Verdict.UNKNOWN
    assert found["sort_1-aria-faster-than-mysql-8.0"] is Verdict.REFUTED


def test_rounds_go_on_for_the_reference_too(ran):
    """A claim that is still open after the first rounds needs both of its engines."""
    close = replace(KNOWN.claims[0], relation=KNOWN.claims[0].relation.quantity <= 3.5)
    small = replace(KNOWN, claims=(close,), data=type(KNOWN.data)(), presets={"quick": KNOWN.preset("quick")})
    _, record, _ = ran(small, ENGINES)
    rounds = {engine: len(record.quiet(engine, case)) for engine, case in close.relation.measured_on("mariadb")}

    assert rounds["mariadb"] == rounds["mysql-5.5"] > KNOWN.preset("quick").min_rounds
    assert not [
        m for m in record.measurements if m.engine == "mysql-8.0" and m.round > KNOWN.preset("quick").min_rounds
    ]


# --- the published table ----------------------------------------------------------------------------------------------


def test_the_table_is_like_the_published_one(ran):
    """Average, minimum and maximum in a cell, a column for each engine and storage engine that was measured."""
    summary, _, _ = ran(KNOWN, ["mysql-5.5", "mysql-5.7", "mariadb"])
    table = summary.comparison

    assert table.columns == ["mysql-5.5, MyISAM", "mysql-5.7, MyISAM", "mysql-5.7, InnoDB", "mariadb, Aria"]
    assert [row.label for row in table.rows] == ["sort_1", "sort_id"]
    cell = table.rows[0].cells[0]
    assert cell.least <= cell.average <= cell.most and cell.average == pytest.approx(600, rel=0.02)
    assert wording.cell(cell).count("–") == 1


def test_an_engine_that_was_not_measured_has_no_cell():
    """A gap in the table is shown as one."""
    assert wording.cell(None) == "–"


def test_a_table_of_unknown_cases_is_refused(refused):
    """The table can only show what is measured."""
    table = ComparisonTable("t", "average_ms", "min_ms", "max_ms", {"Aria": {"sort_2": "sort_2-aria"}})

    assert "sort_2-aria" in refused(replace, KNOWN, comparison=table).found


def test_the_published_figures_are_those_of_the_literature():
    """Seconds for 20 queries, as ms; the two ratios follow from them."""
    averages = {row.case: row.value for row in KNOWN.data.published.rows if row.figure == "average_ms"}

    assert averages == PUBLISHED
    both = [sum(value for case, value in averages.items() if case.endswith(kind)) for kind in ("aria", "myisam")]
    published = KNOWN.data.claims["aria-2-times-slower-than-mysql-5.5"].published
    assert published == pytest.approx(both[0] / both[1], abs=0.001)
    for table in ("sort_1", "sort_id"):
        published = KNOWN.data.claims[f"{table}-aria-faster-than-mysql-5.5"].published
        assert published == pytest.approx(PUBLISHED[f"{table}-aria"] / PUBLISHED[f"{table}-myisam"], abs=0.001)


# --- the load ---------------------------------------------------------------------------------------------------------


class Prints(LabOfNames):
    """A lab whose slap prints a given text; the command is stored."""

    topology = catalogue.topology("single")

    def __init__(self, text):
        self.text = text

    def application(self, _node):
        return "lab", "secret"

    def run(self, service, *command, environment):
        self.asked, self.environment = (service, *command), environment
        return self.text


def test_slap_is_asked_as_in_the_published_test():
    """20 queries, three times, one client, in a schema that is left alone; the figures are its own, in ms."""
    lab = Prints("\n,mixed,1.803,1.791,1.826,1,20\n\n")
    found = Slap("SELECT 1").run(lab, 7)

    assert found.figures == pytest.approx({"average_ms": 1803, "min_ms": 1791, "max_ms": 1826})
    assert found.commits == 60
    assert lab.environment == {"MYSQL_PWD": "secret"} and "secret" not in " ".join(lab.asked)
    assert lab.asked[:2] == ("load", "mariadb-slap")
    assert {"--iterations=3", "--number-of-queries=20", "--concurrency=1", "--no-drop", "--host=server"} <= set(
        lab.asked
    )


def test_the_own_slap_comes_by_the_socket():
    """MySQL's own takes no option of MariaDB's, and no TLS is measured."""
    lab = Prints(",mixed,1,1,1,1,20\n")
    Slap("SELECT 1", own="mysqlslap").run(lab, 7)

    assert lab.asked[:2] == ("server", "mysqlslap")
    assert "--socket=/run/mysqld/mysqld.sock" in lab.asked and "--skip-ssl" not in lab.asked


@pytest.mark.parametrize("text", ["", "mysqlslap: Cannot run query", ",mixed,,,,1,20"])
def test_a_slap_that_prints_no_times_is_an_error(text, refused):
    """What it printed is told."""
    assert repr(text) in refused(Slap("SELECT 1").run, Prints(text), 7).found


# --- sabotage ---------------------------------------------------------------------------------------------------------


def drop_the_group(lab, _load):
    """Make the temporary table unnecessary by an index."""
    lab.grouping.plan = {"type": "index", "rows": 10_000, "Extra": "Using index"}


def lose_rows(lab, _load):
    """Delete rows from the table."""
    lab.grouping.plan |= {"rows": 10}


def write_elsewhere(lab, _load):
    """Fill tables of another storage engine at the same time."""
    lab.grouping.counters["Innodb_rows_inserted"] += 10_000_000


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (
            troubles.keep_in_memory,
            "temporary table went to disk (Created_tmp_disk_tables): expected at least 60, found 0",
        ),
        (drop_the_group, "expected ALL, 10000 rows, Using temporary, found index, 10000 rows, Using index"),
        (lose_rows, "found ALL, 10 rows"),
        (
            write_elsewhere,
            "only aria wrote the temporary tables' rows: expected at least 540000 rows by aria, at most",
        ),
    ],
)
def test_what_is_not_the_published_test_is_never_judged(ran, trouble, reason):
    """A table in memory, another plan, other rows, other writers: UNKNOWN with what was counted."""
    summary, record, _ = ran(KNOWN, ENGINES, meanwhile=trouble)

    assert reason in doubts(record, "mariadb", "sort_1-aria")
    assert set(verdicts(summary, "mariadb").values()) == {Verdict.UNKNOWN}
    assert summary.exit_code == 3


def test_a_table_in_memory_is_noticed_where_the_server_does_not_count_it(ran):
    """MySQL 8.0 counts no temporary table that went to InnoDB; the rows that InnoDB wrote tell."""
    _, record, _ = ran(KNOWN, ENGINES, meanwhile=troubles.keep_in_memory)

    assert "only innodb wrote the temporary" in doubts(record, "mysql-8.0", "sort_1-innodb")


def test_a_storage_engine_that_was_not_asked_for_is_noticed(ran):
    """MySQL 5.7's variable is set back during the load."""

    def set_back(lab, _load):
        lab.node("server").server().set_global(**{CHOICE: "INNODB"})

    _, record, _ = ran(KNOWN, ["mysql-5.7"], meanwhile=set_back)

    assert "only myisam wrote the temporary" in doubts(record, "mysql-5.7", "sort_1-myisam")
    assert not doubts(record, "mysql-5.7", "sort_1-innodb")


def test_a_slap_that_failed_is_a_doubt(ran):
    """The measurement is kept with the error, and judges nothing."""

    def fail(_lab, _load):
        raise LabError("`mariadb-slap` in load ended with status 1:\n  Cannot run query", "exit status 0")

    summary, record, _ = ran(KNOWN, ENGINES, meanwhile=fail)

    assert "Cannot run query" in doubts(record, "mariadb", "sort_1-aria")
    assert summary.exit_code == 3
