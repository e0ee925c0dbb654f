"""The everyday commands on a real lab, as a user types them; and a lab that `lab drill --keep` leaves up."""

import json
import signal

import msgspec
import pymysql
import pytest
from replication_lab import runs
from replication_lab.model.drill.drill import Expectation
from replication_lab.runner import drill_set
from replication_lab.world import lab_files
from replication_lab.world.docker import leftovers, project

from tests.lab.conftest import read_until

NAME = "test-everyday"


@pytest.fixture(scope="module")
def lab(command):
    """Yield a function that types a command for a lab of its own: a source and a replica on a link without toxics."""
    answer = command("up", "async", "--lab", NAME, "--toxic", "source-replica=lan")
    assert answer.returncode == 0, answer.stderr

    def typed(verb, *arguments):
        words = (verb, arguments[0]) if verb == "link" else (verb,)
        return command(*words, "--lab", NAME, *arguments[len(words) - 1 :])

    yield typed
    leftovers.remove(NAME)


def state_of(node):
    """Return the status and the exit status of a node's container, as the engine reports them."""
    return project.find(NAME).node(node).state()


def answers(lab, node) -> bool:
    """Return whether a statement on a node succeeds."""
    return lab("sql", node, "-e", "SELECT 1").returncode == 0


def test_a_link_is_cut_and_restored(lab):
    """Nothing gets through, and then as fast as at first; a second cut of a link that is cut is refused."""
    cut = command_of_a_link(lab, "cut")
    assert cut.returncode == 0 and "nothing gets through" in cut.stdout, cut.stdout + cut.stderr
    assert "cut" in lab("status").stdout
    assert command_of_a_link(lab, "cut").returncode == 2
    restored = command_of_a_link(lab, "restore")

    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert "round trip" in lab("status").stdout


def command_of_a_link(lab, verb):
    return lab("link", verb, "source-replica")


@pytest.mark.parametrize(
    ("verb", "back", "state", "said"),
    [
        # Ten seconds until the container ends, and back.
        pytest.param(
            "stop", "start", ("exited", 0), "verified: replica is stopped: exited with status 0", marks=pytest.mark.long
        ),
        ("kill", "start", ("exited", 137), "verified: replica is killed: exited with status 137"),
        pytest.param(
            *("kill --signal ABRT", "start", ("exited", 0), "verified: replica is killed: exited with status 0"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            "pause", "start", ("paused", 0), "verified: replica is frozen: no answer, paused", marks=pytest.mark.long
        ),
    ],
)
def test_a_node_is_broken_and_brought_back(lab, verb, back, state, said):
    """The engine has it in that state; afterwards it serves again."""
    broken = lab(*verb.split(), "replica")

    assert broken.returncode == 0, broken.stderr
    assert said in broken.stdout and f"to undo: ./lab {back} replica --lab {NAME}" in broken.stdout
    assert state_of("replica") == state

    again = lab(*verb.split(), "replica")
    assert again.returncode == 0 and "replica was not changed" in again.stdout

    whole = lab(back, "replica")
    assert whole.returncode == 0, whole.stderr
    assert "verified: replica runs again: serving" in whole.stdout
    assert state_of("replica")[0] == "running" and answers(lab, "replica")


@pytest.mark.long
def test_two_nodes_are_killed_and_started_together(lab):
    """By one command each; the links lead to the same data."""
    assert lab("kill", "source", "replica").returncode == 0
    assert [state_of(node)[0] for node in ("source", "replica")] == ["exited", "exited"]

    refused = lab("pause", "source")
    assert refused.returncode == 2 and f"next: ./lab start source --lab {NAME}" in refused.stderr
    again = lab("up", "async")
    assert again.returncode == 2 and "are not running" in again.stderr and "next: ./lab start " in again.stderr

    assert lab("start", "source", "replica").returncode == 0
    assert answers(lab, "source") and answers(lab, "replica")


@pytest.mark.long
def test_a_log_is_the_servers_and_a_service_beside_the_nodes_has_one_too(lab):
    """As text, cut to its end, and as data."""
    assert "ready for connections" in lab("logs", "source").stdout
    assert lab("logs", "source", "--tail", "1").stdout.count("\n") == 1
    assert json.loads(lab("logs", "toxiproxy", "--json").stdout)["lines"]
    assert lab("logs", "no-such-node").returncode == 2


def test_a_followed_log_is_shown_as_it_comes_without_what_a_terminal_obeys(lab, start_command):
    """Until the command is interrupted; what a client writes into the log does nothing."""
    following = start_command("logs", "source", "--follow", "--tail", "1", "--lab", NAME)
    assert following.stdout.readline()
    assert lab("exec", "source", "sh", "-c", r"printf 'new \033]0;owned\007 words\n' >/proc/1/fd/2").returncode == 0
    said = read_until(following, " words\n")[-1]
    following.send_signal(signal.SIGINT)

    assert said.startswith("new ") and not set(said) & {"\x1b", "\x07"}
    assert following.wait() == 130


def test_a_command_runs_in_a_node_and_its_exit_status_is_kept(lab):
    """Options after the node are the command's; root's password is in its environment."""
    assert lab("exec", "source", "cat", "/etc/hostname").returncode == 0
    assert lab("exec", "source", "sh", "-c", "exit 7").returncode == 7
    said = json.loads(lab("exec", "--json", "source", "sh", "-c", "echo one; echo two").stdout)

    assert said == {"node": "source", "output": "one\ntwo\n"}
    failed = lab("exec", "--json", "source", "ls", "/no-such-folder")
    assert failed.returncode == 2 and "ended with" in failed.stderr


def test_a_client_connects_by_what_env_prints(lab):
    """The variables are those of MySQL's own clients; --json of the status has the same."""
    found = json.loads(lab("env", "--json").stdout)
    exported = "".join(f"export {name}={value}\n" for name, value in found.items())

    assert lab("env").stdout == exported, "none of the values needs quotes"
    with pymysql.connect(
        host=found["MYSQL_HOST"],
        port=int(found["MYSQL_TCP_PORT"]),
        user=found["MYSQL_USER"],
        password=found["MYSQL_PWD"],
        database=found["MYSQL_DATABASE"],
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT @@server_id")
        assert cursor.fetchone() == (1,)
    (seen,) = json.loads(lab("status", "--json").stdout)
    assert [each["dsn"] for each in seen["connections"]] == [found["LAB_SOURCE_DSN"], found["LAB_REPLICA_DSN"]]


def test_a_dry_run_removes_nothing(lab, command):
    """The lab is listed, and is up all the same."""
    assert NAME in command("clean", "--dry-run").stdout.splitlines()
    assert answers(lab, "source")


@pytest.mark.long
def test_the_lab_of_a_drill_that_failed_stays_up(command, docker):
    """With --keep; it answers as any other lab, and is no leftover once this process has ended."""
    expected = [Expectation("five acknowledged rows are lost", "lost", equals=5)]
    drill = msgspec.structs.replace(drill_set.load("async", "pause-replica"), expected=expected)
    told = []
    try:
        folder, summary = runs.drill("async", "mariadb", [drill], 7, told.append, keep=True)

        (name,) = (line.split()[0] for line in told if " stays up: " in line)
        assert (summary.exit_code, summary.ended) == (1, "kept")
        assert f"{name} stays up: ./lab status --lab {name}; to remove it: ./lab down --lab {name}" in told
        assert command("sql", "replica", "--lab", name, "-e", "SELECT 1").returncode == 0
        assert lab_files.saved_state(name) is not None and name not in leftovers.left_behind()
        assert command("report", str(folder)).returncode == 1
    finally:
        for line in told:
            if " stays up: " in line:
                leftovers.remove(line.split()[0])
