"""On real servers: a statement is sent once whatever becomes of its answer, and what is said of it is true."""

import json
import signal
import threading

import pytest
from replication_lab.model.core.errors import OutcomeUnknown
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import leftovers, project

NAME = "test-statements"
NEVER = 4_294_967_295


@pytest.fixture(scope="module")
def lab(command):
    """Yield a pair whose source waits for its replica for ever, and a function that types a command for it."""
    answer = command("up", "semisync", "--lab", NAME, "--toxic", "source-replica=lan")
    assert answer.returncode == 0, answer.stderr
    found = project.find(NAME)
    source = found.node("source").server()
    source.execute(f"SET GLOBAL rpl_semi_sync_master_timeout = {NEVER}", "CREATE TABLE lab.t (id INT)")
    yield found
    leftovers.remove(NAME)


@pytest.fixture
def source(lab):
    """Return the source, with an empty table `lab.t`."""
    found = lab.node("source").server()
    found.execute("TRUNCATE lab.t")
    return found


def running(server, text):
    """Return the numbers of the sessions that run a statement with this text."""
    rows = server.rows("SHOW FULL PROCESSLIST")
    return [row["Id"] for row in rows if text in (row["Info"] or "") and row["Command"] == "Query"]


@pytest.fixture
def silent_replica(lab):
    """Cut the only link, so that a commit waits for an acknowledgement until it is mended; mend it at the end."""
    lab.link("source-replica").cut()
    yield
    lab.link("source-replica").enable()


def outcome_of(server, statement):
    """Begin a statement in a thread, wait until it runs; return the thread, and the list that gets its error."""
    errors = []

    def execute():
        try:
            server.execute(statement)
        except OutcomeUnknown as error:
            errors.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    wait_until(lambda: running(server.another(), statement), "the statement to run", 20)
    return thread, errors


def test_a_commit_whose_connection_is_lost_is_one_row_and_an_unknown_outcome(source, silent_replica, lab):
    """The row is there, and only once: sent again it would be there twice."""
    other = source.another()
    thread, errors = outcome_of(source, "INSERT INTO lab.t VALUES (1)")
    other.execute(f"KILL CONNECTION {running(other, 'INSERT INTO lab.t')[0]}")
    thread.join(30)
    lab.link("source-replica").enable()

    assert [error.found.startswith("`INSERT INTO lab.t VALUES (1)` was sent to source") for error in errors] == [True]
    assert source.value("SELECT COUNT(*) FROM lab.t") == 1


def test_a_connection_that_was_ended_between_two_statements_is_replaced(source):
    """Nothing was sent on the old one, so the statement runs, and once."""
    number = source.value("SELECT CONNECTION_ID()")
    source.another().execute(f"KILL CONNECTION {number}")
    source.execute("INSERT INTO lab.t VALUES (2)")

    assert source.value("SELECT COUNT(*) FROM lab.t") == 1
    assert source.value("SELECT CONNECTION_ID()") != number


@pytest.mark.long
def test_a_commit_that_waits_longer_than_the_client_is_one_row(source, silent_replica, lab, command):
    """After a minute without an answer the command ends with status 1, and says that the statement may still run."""
    ended = command("sql", "source", "--lab", NAME, "-e", "INSERT INTO lab.t VALUES (3)")
    assert ended.returncode == 3, ended
    assert "no answer from source within 60 s" in ended.stderr and "may still run there" in ended.stderr
    assert running(source.another(), "INSERT INTO lab.t VALUES (3)")
    lab.link("source-replica").enable()
    wait_until(lambda: not running(source.another(), "INSERT INTO lab.t"), "the statement to end", 60)

    assert source.value("SELECT COUNT(*) FROM lab.t") == 1


def test_several_statements_are_run_in_one_session(lab, command):
    """A temporary table is seen by the next one; a procedure has statements of its own."""
    text = (
        "CREATE TEMPORARY TABLE mine (a VARCHAR(9)); INSERT INTO mine VALUES ('a;b'); SELECT * FROM mine;\n"
        "DELIMITER //\nCREATE OR REPLACE PROCEDURE two() BEGIN SELECT 2 AS two; END//\nDELIMITER ;\nCALL two()"
    )
    answer = command("sql", "source", "--lab", NAME, "--json", "-e", text)
    failed = command("sql", "source", "--lab", NAME, "-e", "SELECT 1 AS one; SELECT no_such_column; SELECT 3 AS three")

    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout) == [[], [], [{"a": "a;b"}], [], [{"two": 2}]]
    assert failed.returncode == 2 and "one" in failed.stdout and "three" not in failed.stdout
    assert "statement 2 of 3, `SELECT no_such_column` on source failed" in " ".join(failed.stderr.split())


@pytest.mark.parametrize("option", ["-e", "--file"])
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGINT, signal.SIGHUP))]
)
def test_an_interrupted_statement_is_ended_on_the_server(lab, start_command, tmp_path, option, number):
    """Nothing was started that could have been removed, and nothing still runs."""
    text = f"SELECT 1;\nSELECT SLEEP({300 + number});"
    file = tmp_path / "slow.sql"
    file.write_text(text)
    process = start_command("sql", "source", option, text if option == "-e" else str(file), "--lab", NAME)
    source = lab.node("source").server()
    wait_until(lambda: running(source, f"SELECT SLEEP({300 + number})"), "the statement to run", 20)
    process.send_signal(number)
    said = " ".join(process.communicate(timeout=30)[0].split())

    assert process.returncode == 128 + number
    assert f"stopped ({signal.Signals(number).name}); " in said
    place, before = ("statement 2 of 2", " by KILL QUERY, and its outcome is unknown; statements run before: 1 of 2")
    if option == "--file":
        place, before = "slow.sql line 2", ", and its outcome is unknown"
    assert f"{place}, `SELECT SLEEP({300 + number})`" in said and f"was ended on source{before}" in said
    assert "Traceback" not in said and "removed" not in said
    assert not running(source, f"SELECT SLEEP({300 + number})")
