"""Is a project waited for until every server replicates as before, and told with its error if one does not?"""

import shlex
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab.attach import as_before
from replication_lab.attach.as_before import NotAsBefore, by_hand, troubles
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import Replicating
from replication_lab.world.mysql.accounts import Account
from replication_lab.world.mysql.dialects import dialects
from replication_lab.world.mysql.replica import ReplicaStatus

from tests.unit.attached_projects import attachment

RUNS = ReplicaStatus(True, True, "db", 3306, "", 0)
STOPPED = replace(RUNS, applying=False)
BROKEN = replace(RUNS, applying=False, error="1049 Unknown database 'lab'", ended="1049 Unknown database 'lab'")
LOST_LOG = replace(BROKEN, ended="Failed to open the relay log './relay.000001'")
BEFORE = Replicating(3306, {"": "db:3306"})


@pytest.fixture
def server(monkeypatch):
    """Make a server from its channels; `now` is what it is otherwise."""

    def make(dialect="mariadb", members=0, acknowledging=0, **channels):
        told = {name.removeprefix("_"): each for name, each in channels.items()}
        monkeypatch.setattr(as_before, "Replica", lambda one: SimpleNamespace(channels=lambda: one.channels))
        semisync = SimpleNamespace(active=True, replicas=acknowledging)
        monkeypatch.setattr(as_before, "SemiSync", lambda _: SimpleNamespace(status=lambda: semisync))
        monkeypatch.setattr(as_before, "_members", lambda one: one.members)
        return SimpleNamespace(channels=told, members=members, dialect=dialects()[dialect])

    return make


def test_a_server_that_replicates_as_before_has_no_trouble(server):
    """A channel that did not run before need not run now."""
    assert not [*troubles(BEFORE, server(_=RUNS, _second=BROKEN))]
    assert as_before.look(server(_=RUNS, _second=STOPPED), 3306).channels == {"": "db:3306"}


@pytest.mark.parametrize(
    ("before", "now", "said", "ended", "statement"),
    [
        (BEFORE, {"_": BROKEN}, "1049 Unknown database 'lab'", True, "START SLAVE"),
        (BEFORE, {"_": STOPPED}, "IO thread runs, SQL thread stopped", False, "START SLAVE"),
        (BEFORE, {}, "it no longer replicates from db:3306", True, ""),
        (BEFORE, {"_": LOST_LOG}, LOST_LOG.ended, True, "STOP SLAVE; RESET SLAVE; START SLAVE"),
        (
            Replicating(3306, {"": "db:3306", "second": "other:3306"}),
            {"_": RUNS, "_second": BROKEN},
            BROKEN.ended,
            True,
            "START SLAVE 'second'",
        ),
        (Replicating(3306, members=3), {"members": 2}, "it sees 2 members of its cluster, and saw 3 before", False, ""),
        (
            Replicating(3306, acknowledging=2),
            {"acknowledging": 1},
            "1 replicas acknowledge its commits, and 2 did before",
            False,
            "",
        ),
    ],
)
def test_what_is_not_as_before_is_said(server, before, now, said, ended, statement):
    """Each channel, each member, and whom commits wait for; with the server's own error."""
    (found,) = troubles(before, server(**now))

    assert (found.said, found.ended, found.statement) == (said, ended, statement)


def test_a_replica_that_runs_has_to_catch_up_with_its_source(monkeypatch, wait):
    """Its applier may be about to stop: a server that runs a moment after its start proves little."""
    said = ["replica did not catch up within 2 s", ""]
    monkeypatch.setattr(as_before, "_behind", lambda *_: said.pop(0))

    assert wait(None, before=msgspec.structs.replace(BEFORE, level_with="replica")) and not said


def test_threads_that_stay_stopped_without_an_error_are_explained_by_the_log(wait):
    """As MariaDB's after its relay log was lost: its status has no error, and its log names it."""
    stopped = as_before.Trouble("stopped", False, "START SLAVE", unexplained=True, again="RESET SLAVE; START SLAVE")
    found = container()
    found.logs = lambda tail: b"[Note] ready\n[ERROR] Failed to open the relay log './relay.000002'\n"
    with pytest.raises(NotAsBefore) as caught:
        wait(stopped, found=found, stopped_seconds=0)

    assert "stopped\n  [ERROR] Failed to open the relay log './relay.000002'" in caught.value.found
    assert "RESET SLAVE; START SLAVE" in caught.value.next_step and "ready" not in caught.value.found


def test_a_channel_is_named_in_the_words_of_the_server(server):
    """MySQL spells it differently."""
    (found,) = troubles(Replicating(3306, {"c1": "db:3306"}), server("mysql", _c1=BROKEN))

    assert found.statement == "START REPLICA FOR CHANNEL 'c1'"


def container(status="running", health="healthy", number=1, **environment):
    attrs = {
        "State": {"Health": {"Status": health}},
        "Config": {"Env": [f"{name}={value}" for name, value in environment.items()]},
    }
    return SimpleNamespace(
        name=f"shop-replica-{number}", status=status, attrs=attrs, logs=lambda tail: b"ended by itself"
    )


@pytest.fixture
def wait(monkeypatch):
    """Wait for a project whose replica has these troubles, one answer after another."""

    def run(*answers, found=None, beside=(), seconds=60.0, is_over=False, before=BEFORE, stopped_seconds=60.0):
        told, left = [], [*answers]
        monkeypatch.setattr(as_before, "SECONDS", seconds)
        monkeypatch.setattr(as_before, "STOPPED_SECONDS", stopped_seconds)
        monkeypatch.setattr(as_before.clock, "pause", lambda _: None)
        monkeypatch.setattr(
            as_before.compose_call, "containers", lambda _: {"replica": [found or container(), *beside]}
        )
        monkeypatch.setattr(as_before.own_schema, "is_left", lambda one: one.is_left)

        def server_of(_self, _node):
            answer = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(is_left=answer == "left", answer=answer, close=lambda: None)

        monkeypatch.setattr(as_before.ServersOfProject, "server", server_of)
        monkeypatch.setattr(
            as_before.ServersOfProject, "account", lambda *_: Account("root", "x", "MYSQL_ROOT_PASSWORD")
        )
        monkeypatch.setattr(
            as_before,
            "troubles",
            lambda _, one: iter([one.answer] if isinstance(one.answer, as_before.Trouble) else []),
        )
        names = [f"shop-replica-{number}" for number in range(1, 2 + len(beside))]
        attached = attachment(servers={**dict.fromkeys(names, before), "shop-removed-1": Replicating(3306)})
        as_before.wait(attached, {}, told.append, is_over=is_over)
        return told

    return run


WAITS, ENDED = as_before.Trouble("not yet"), as_before.Trouble("1049", ended=True, statement="START SLAVE")


def test_a_project_is_waited_for(wait):
    """Until a server answers, and a replica is connected; a service that was removed is not waited for."""
    assert "replica" in wait(LabError("no answer"), WAITS, None)[0]
    assert wait("left", None, is_over=True) and wait("left")


def test_every_container_of_a_service_is_waited_for(wait):
    """Each has a name of its own, and one that is not as before is told by it."""
    (told,) = wait(None, WAITS, None, beside=[container(number=2)])
    assert "shop-replica-1, shop-replica-2: healthy" in told

    with pytest.raises(NotAsBefore, match="shop-replica-2 of shop, which replicated from db:3306") as caught:
        wait(None, ENDED, beside=[container(number=2)])
    assert "shop-replica-2 sh -c" in caught.value.next_step


def test_all_servers_that_are_not_as_before_are_told_together(wait):
    """With one command that repairs each; one that only needs a moment is waited for."""
    beside = [container(number=2), container(number=3)]
    with pytest.raises(NotAsBefore) as caught:
        wait(ENDED, WAITS, ENDED, None, beside=beside)

    assert [line.split()[0] for line in caught.value.found.splitlines()] == ["shop-replica-1", "shop-replica-3"]
    first, second = caught.value.next_step.split(" && ")
    assert "shop-replica-1 sh -c" in first and "shop-replica-3 sh -c" in second


@pytest.mark.parametrize(
    ("answers", "found", "seconds", "said"),
    [
        ([ENDED], None, 60, "replica of shop, which replicated from db:3306, is not as before: 1049"),
        ([WAITS], None, 0, "not yet"),
        ([LabError("it does not answer")], None, 0, "it does not answer"),
        ([None], container("exited"), 60, "shop-replica-1 has ended. Its log:\n  ended by itself"),
        ([None], container(health="unhealthy"), 0, "shop-replica-1 is not healthy"),
        (["left"], None, 0, "it still has the schema lab"),
    ],
)
def test_a_server_that_does_not_become_as_before_is_told(wait, answers, found, seconds, said):
    """At once if it has ended; with a command that mends it."""
    with pytest.raises(NotAsBefore) as caught:
        wait(*answers, found=found, seconds=seconds, is_over=True)

    assert said in caught.value.found and caught.value.next_step.startswith("docker ")


@pytest.mark.parametrize(
    ("account", "environment"),
    [
        (Account("root", "s3cr'et", "MYSQL_ROOT_PASSWORD"), {"MYSQL_ROOT_PASSWORD": "s3cr'et"}),
        (Account("root", "s3cr'et", "MARIADB_ROOT_PASSWORD_FILE"), {"MARIADB_ROOT_PASSWORD_FILE": "/run/secret"}),
        (Account("root", "s3cr'et", "my-account"), {}),
        (None, {"MYSQL_ROOT_PASSWORD": "s3cr'et"}),
    ],
)
def test_a_command_by_hand_never_has_the_password(account, environment):
    """It takes it from the container's environment, or asks for it."""
    command = by_hand(container(**environment), "START SLAVE", account)

    assert "s3cr" not in command and '-e "START SLAVE"' in command
    assert ("-it" in command) is (not account or account.origin not in environment)
    inside = shlex.split(command)[-1]
    assert subprocess.run(["sh", "-n", "-c", inside], check=False).returncode == 0
