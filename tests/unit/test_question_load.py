"""Is the load of a user's question read as it was meant, and is a file that cannot be one refused before the start?"""

import gzip
import re

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab.cli.ask import _load
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.load import SYSBENCH
from replication_lab.model.question.question import Question
from replication_lab.model.question.sql_load import Letters, Numbers, transactions
from replication_lab.model.question.sql_text import typed_statements
from replication_lab.workloads.timed_script import TimedScript, quoted, script_of
from replication_lab.world.given_texts import read

SHOP = """-- The shop; two of its transactions.
SELECT name FROM item WHERE id = {id:1..1000};
--
INSERT INTO orders (item, buyer) VALUES ({id:1..1000}, '{buyer:8}');
UPDATE item SET stock = stock - 1
  WHERE id = {id};
"""
READS = "SELECT 1;"
WRITES = "INSERT INTO t VALUES ({id:1..9});"


def sql(text: str, name: str = "load.sql") -> GivenFile:
    return GivenFile(name, text)


def question(workload: str | GivenFile = "inserts", **others) -> Question:
    return Question(
        **{"topologies": ["semisync"], "vary": {"clients": ["1", "4"]}, "rounds": 3, "margin": 1.0, "seconds": 1}
        | {"workload": workload}
        | others
    )


# --- a file of SQL ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1;\nSELECT 2;", [(1, "SELECT 1"), (2, "SELECT 2")]),
        ("\n\nSELECT\n 1;SELECT 2;", [(3, "SELECT\n 1"), (4, "SELECT 2")]),
        ("SELECT ';', \";\", `;`;", [(1, "SELECT ';', \";\", `;`")]),
        ("SELECT 'it''s', 'it\\'s;';", [(1, "SELECT 'it''s', 'it\\'s;'")]),
        ("-- one;\n# two;\n/* three; */ SELECT 4;", [(3, "SELECT 4")]),
        ("SELECT 1--1;", [(1, "SELECT 1--1")]),
        ("/*!40101 SET NAMES utf8 */;", [(1, "/*!40101 SET NAMES utf8 */")]),
        ("/*M!999999\\- enable the sandbox mode */\nSELECT 1;", [(2, "SELECT 1")]),
        ("CREATE TABLE t (\n--\nid INT);", [(1, "CREATE TABLE t (\n \nid INT)")]),
        ("DELIMITER //\nCREATE TRIGGER a; b //\ndelimiter ;\nSELECT 1;", [(2, "CREATE TRIGGER a; b"), (4, "SELECT 1")]),
        ("\ufeffSELECT 1;\r\nSELECT 2;;", [(1, "SELECT 1"), (2, "SELECT 2")]),
    ],
)
def test_a_file_is_read_as_statements_with_their_lines(text, found):
    """Quotes, comments and the client's own DELIMITER are respected."""
    assert [(each.line, each.sql) for each in typed_statements(text)] == found


@pytest.mark.whole
def test_a_large_dump_is_read_in_time_that_grows_with_its_size():
    """A statement of many thousand values is no reason to wait."""
    values = ", ".join(f"({number}, 'it''s {number}')" for number in range(50_000))

    (one,) = typed_statements(f"INSERT INTO t VALUES {values};")

    assert len(one.sql) > 1_000_000


def test_dashes_separate_transactions_whose_parameters_are_found():
    """The same name is the same value, also without its range; a transaction writes if one of its statements does."""
    reading, writing = transactions(sql(SHOP))

    assert (reading.writes, writing.writes) == (False, True)
    assert reading.parameters == {"id": Numbers(1, 1000)}
    assert writing.parameters == {"id": Numbers(1, 1000), "buyer": Letters(8)}
    assert writing.statements[1] == ["UPDATE item SET stock = stock - 1\n  WHERE id = ", "id", ""]


@pytest.mark.parametrize("text", ["---\n--\nSELECT 1;\n--\n", "SELECT 1;\n  -----  \n-- nothing\n"])
def test_an_empty_part_is_no_transaction(text):
    """Lines of dashes may surround a heading."""
    assert len(transactions(sql(text))) == 1


def test_braces_without_a_name_are_text():
    """JSON stays as it is."""
    (one,) = transactions(sql("""INSERT INTO t VALUES ('{"a": {}}');"""))

    assert one.parameters == {} and one.statements == [["""INSERT INTO t VALUES ('{"a": {}}')"""]]


def test_several_statements_are_one_transaction_and_one_is_sent_by_itself():
    """BEGIN and COMMIT cost round trips that a single statement does not need."""
    assert '{ "BEGIN" }' in script_of(transactions(sql("SELECT 1; SELECT 2;")))
    assert '{ "BEGIN" }' not in script_of(transactions(sql("SELECT 1;")))


def test_a_text_is_written_as_lua_reads_it():
    """Quotes, backslashes, new lines and letters that are not ASCII are numbers."""
    assert quoted("a 'b' \"\\\nä") == "\"a 'b' \\034\\092\\010\\195\\164\""


# --- what is refused --------------------------------------------------------------------------------------------------

BAD_LOADS = [
    ("oltp_read_wrte", "unknown workload 'oltp_read_wrte'; did you mean oltp_read_write?"),
    ("bulk_insert", "unknown workload 'bulk_insert'"),
    (sql(""), "load.sql holds no statement"),
    (sql("-- only a comment\n--\n"), "load.sql holds no statement"),
    (sql("SELECT 1"), "load.sql line 1: the statement `SELECT 1` does not end"),
    (sql("SELECT 1\n--\nSELECT 2;"), "load.sql line 1: the statement `SELECT 1` does not end"),
    (sql("\nSELECT 'a;"), "load.sql line 2: a quote is never closed"),
    (sql("SELECT 1 /* a;"), "load.sql line 1: a comment is never closed"),
    (sql("SELECT {id:5..1};"), "load.sql line 1: {id:5..1} has a lower bound above its upper bound"),
    (sql("SELECT {id:1..9999999999};"), "{id:1..9999999999} exceeds 2147483647"),
    (sql("SELECT {id:-1..5};"), "load.sql line 1: {id:-1..5} is not a parameter"),
    (sql("SELECT {id:};"), "{id:} is not a parameter"),
    (sql("SELECT '{string:0}';"), "{string:0} is not a parameter"),
    (sql("SELECT '{string:many}';"), "{string:many} is not a parameter"),
    (sql("SELECT {1:1..2};"), "{1:1..2} has no name"),
    (sql("SELECT {id};"), "{id} has no range"),
    (sql("SELECT {id:1..2};\n--\nSELECT {id};"), "load.sql line 3: {id} has no range"),
    (sql("SELECT {id:1..2}, {id:1..3};"), "{id:1..3} gives id a different range"),
    (sql("BEGIN;\nSELECT 1;\nCOMMIT;"), "load.sql line 1: a load cannot contain BEGIN"),
    (sql("SELECT 1;\nCREATE TABLE t (id INT);"), "load.sql line 2: a load cannot contain CREATE"),
    (sql("CALL p();"), "load.sql line 1: a load cannot contain CALL"),
    (GivenFile("load.txt", READS), "load.txt is neither .sql nor .lua"),
    (GivenFile("load.lua", "print(1)"), "load.lua defines no function event"),
    (GivenFile("load.lua", "x" * (17 << 20)), "load.lua has 17 MiB"),
]


@pytest.mark.parametrize(("workload", "said"), BAD_LOADS, ids=[said for _, said in BAD_LOADS])
def test_a_load_that_cannot_be_run_is_refused(workload, said, refused):
    """One message, with the file's name and line, before anything starts."""
    assert said in refused(question, workload).found


BAD_BEGINNINGS = [
    ("", "a.sql holds no statement"),
    ("mysqldump: [Warning] Using a password\nSELECT 1;", "a.sql line 1: `mysqldump: [Warning] Using a password`"),
    ("CREATE TABLE t (id INT);\nUSE shop;", "a.sql line 2: `USE shop`; it uses another database than lab"),
    (
        "CREATE DATABASE shop;\nUSE shop;",
        "a.sql: it uses another database than lab:\n  a.sql line 1: `CREATE DATABASE shop",
    ),
    ("SET @@SESSION.SQL_LOG_BIN= 0;", "a.sql line 1: it sets SQL_LOG_BIN"),
    ("SET @@GLOBAL.GTID_PURGED='a';", "a.sql line 1: it sets GTID_PURGED"),
]


@pytest.mark.parametrize("option", ["schema", "init"])
@pytest.mark.parametrize(("text", "said"), BAD_BEGINNINGS, ids=[said for _, said in BAD_BEGINNINGS])
def test_a_beginning_that_cannot_be_is_refused(option, text, said, refused):
    """Also a dump that would not reach the other copies."""
    assert said in refused(lambda: question(**{option: sql(text, "a.sql")})).found


def test_the_database_of_the_lab_may_be_used():
    """A dump of it says so."""
    assert question(schema=sql("USE `lab`;\nUSE lab;\nCREATE TABLE t (used INT);")).schema


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.sql", None, "none.sql cannot be read"),
        ("latin.sql", "SELECT 'ä';".encode("latin-1"), "latin.sql is not text: byte 8, in line 1, is not UTF-8"),
        ("a.sql.gz", b"SELECT 1;", "a.sql.gz cannot be unpacked"),
        ("a.sql.gz", gzip.compress(b"SELECT 1;")[:-4], "a.sql.gz cannot be unpacked"),
    ],
    # Workers must collect the same names, and packed bytes hold the time.
    ids=["missing", "not text", "not packed", "cut off"],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, content, said, refused):
    """One message with the file's name."""
    if content is not None:
        (tmp_path / name).write_bytes(content)

    assert said in refused(read, tmp_path / name).found


def test_a_file_is_given_by_its_path_and_packed_or_not(tmp_path):
    """A name without a dot and a slash is that of a load."""
    (tmp_path / "a.sql.gz").write_bytes(gzip.compress(b"SELECT 1;"))

    (tmp_path / "marked.sql").write_bytes("\ufeffSELECT 1;".encode())

    assert read(tmp_path / "a.sql.gz") == GivenFile("a.sql", "SELECT 1;")
    assert read(tmp_path / "marked.sql") == GivenFile("marked.sql", "SELECT 1;")
    assert _load("oltp_insert") == "oltp_insert"


def test_the_command_refuses_before_anything_starts(tmp_path):
    """The error of the file, not of a lab."""
    (tmp_path / "load.sql").write_text("SELECT {id:5..1};")
    typed = ("ask", "semisync", "--vary", "clients=1,2", "--workload", str(tmp_path / "load.sql"))

    said = CliRunner().invoke(cli.cli, typed, prog_name="lab")

    assert (
        isinstance(said.exception, LabError)
        and "{id:5..1} has a lower bound above its upper bound" in said.exception.found
    )


# --- in a model of a lab ----------------------------------------------------------------------------------------------


def measured(record, case="clients=1"):
    return next(event for event in record.measurements if event.case == case)


def failed(record):
    return [proof for event in record.measurements for proof in event.proofs if not proof.ok]


@pytest.mark.parametrize("name", sorted(SYSBENCH))
def test_a_script_of_sysbench_is_run_by_its_name(name):
    """It makes its table first; a cluster's gaps in automatic numbers must not leave updates without a row."""
    load = experiments.asked(question(name)).workload(experiments.asked(question(name)).cases[1], preset())

    assert isinstance(load, TimedScript) and (load.clients, load.seconds) == (4, 1)
    assert load.script.startswith(f'require("{name}")')
    assert ("--auto-inc=on" in load.options) == (name == "oltp_insert")


def preset():
    return experiments.asked(question()).preset("ask")


def test_only_transactions_that_write_are_commits(ran):
    """Each one is acknowledged, and waited for a round trip; those that only read were not and did not."""
    summary, record, _ = ran(experiments.asked(question(sql(SHOP), settings={"rtt": "40ms"})), preset="ask")
    figures, samples = measured(record).figures, measured(record).samples["latency_ms"]
    slow = [each for each in samples if each > 36]

    assert failed(record) == [] and summary.verdict == "AS_EXPECTED"
    assert figures["commits"] == len(slow) and 0 < len(slow) < len(samples)
    assert figures["latency_min_ms"] < 1
    assert {"throughput", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms"} <= figures.keys()


@pytest.mark.parametrize("workload", ["oltp_point_select", sql(READS), GivenFile("own.lua", "function event() end")])
@pytest.mark.parametrize("topology", ["semisync", "galera"])
def test_a_load_that_only_reads_waits_for_no_other_node(ran, workload, topology):
    """No proof asks for acknowledgements that cannot be; a script of the user's says itself which events write."""
    asked = question(workload, topologies=[topology], settings={"rtt": "40ms"})
    summary, record, _ = ran(experiments.asked(asked), preset="ask")

    assert failed(record) == [] and summary.verdict == "AS_EXPECTED"
    assert measured(record).figures["commits"] == 0


def test_writes_that_are_not_acknowledged_are_unknown(ran):
    """The sabotage: semi-sync is switched off during the load."""

    def meddle(lab, _load):
        source = lab.node("source").server()
        source.semisync = type(source.semisync)(False, False, 1, 0, 0, 0, "AFTER_COMMIT", 10_000)

    summary, _, _ = ran(experiments.asked(question(sql(WRITES))), preset="ask", meanwhile=meddle)

    assert summary.verdict == "UNKNOWN"
    assert "semi-sync acknowledged every commit" in summary.claims[0].reason


def test_schema_and_rows_are_made_on_the_source_before_the_load(ran):
    """In this order, statement by statement."""
    seen = []
    asked = question(
        sql(WRITES),
        schema=sql("CREATE TABLE t (id INT);\nCREATE TABLE u (id INT);", "schema.sql"),
        init=sql("INSERT INTO t SELECT 1;", "init.sql"),
    )

    ran(experiments.asked(asked), preset="ask", meanwhile=lambda lab, _load: seen.append(list(lab.said)))

    made = [text for text in seen[0] if re.match("CREATE TABLE [tu]|INSERT INTO t ", text)]
    assert made == ["CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)", "INSERT INTO t SELECT 1"]


@pytest.mark.parametrize("option", ["schema", "init"])
def test_a_statement_that_fails_ends_the_run_with_its_line(ran, option, refused):
    """Nothing is measured on tables that are not those of the user."""
    asked = question(**{option: sql("SET NAMES utf8mb4;\n\nINSERT INTO missing VALUES (1);", "a.sql")})

    assert refused(ran, experiments.asked(asked), preset="ask").found.startswith(
        "a.sql line 3, `INSERT INTO missing VALUES (1)`, on source failed"
    )


def test_a_load_that_fails_ends_the_run_before_anything_is_measured(ran, refused):
    """It is tried out once."""
    asked = question(sql("INSERT INTO missing VALUES (1);"))

    assert "Table 'lab.missing' doesn't exist" in refused(ran, experiments.asked(asked), preset="ask").found


def test_the_record_and_the_file_of_a_question_hold_the_load(ran, tmp_path):
    """Nothing later depends on the user's files."""
    asked = question(sql(SHOP), schema=sql("CREATE TABLE item (id INT);", "schema.sql"))
    _, record, _ = ran(experiments.asked(asked), preset="ask")
    cli.ask._write(tmp_path / "question.yaml", asked)

    assert record.run.question == asked
    assert experiments.from_file(tmp_path / "question.yaml").asked == asked
    assert "under the load load.sql" in experiments.of(record).question
