"""Two containers of an image replicate, and the health check tells whether they do."""

import secrets

import pytest

from tests.images.conftest import until

HOOKS = "/docker-entrypoint-initdb.d"
SOURCE_HOOK = """
SET SESSION sql_log_bin = 0;
CREATE USER 'replicator'@'%' IDENTIFIED BY '{password}';
GRANT REPLICATION SLAVE ON *.* TO 'replicator'@'%';
SET SESSION sql_log_bin = 1;
CREATE DATABASE shop;
CREATE TABLE shop.visits (id INT PRIMARY KEY);
"""


class Pair:
    """A source and a replica whose first attempt to connect uses a wrong password."""

    def __init__(self, stage):
        self.engine = stage.engine
        self.password = secrets.token_hex(8)
        network = stage.network().name
        flags = self.engine.source_flags
        hook = {HOOKS: {"10.sql": SOURCE_HOOK.format(password=self.password)}}
        self.source = stage.server("--server-id=1", *flags, files=hook, network=network)
        hook = {HOOKS: {"10.sql": self.follow("wrong") + self.engine.start_replica + ";\n"}}
        self.replica = stage.server("--server-id=2", *flags, files=hook, network=network)

    def follow(self, password):
        return self.engine.follow_source.format(host=self.source.name, user="replicator", password=password)

    def use_right_password(self):
        self.replica.run(f"{self.engine.stop_replica}; {self.follow(self.password)} {self.engine.start_replica}")


@pytest.fixture(scope="module")
def pair(stage):
    pair = Pair(stage)
    pair.source.wait()
    pair.replica.wait()
    return pair


def test_servers_have_their_own_uuid(pair):
    """Two containers of one image are two servers."""
    if not pair.engine.has_server_uuid:
        pytest.skip("this engine has no server UUID")

    assert pair.source.ask("SELECT @@server_uuid") != pair.replica.ask("SELECT @@server_uuid")


def test_first_start_writes_no_account_to_the_binary_log(pair):
    """A replica's own accounts are not transactions that its source does not have."""
    events = pair.replica.ask("SHOW BINLOG EVENTS")

    assert not [event for event in events if "CREATE USER" in str(event)]
    assert not [event for event in events if "Gtid" == event[2]]


def test_health_tells_why_a_replica_does_not_replicate(pair):
    """With a wrong password the replica serves, does not replicate, and the health check says why."""
    # The reason in full ("Access denied") is not in every server's status: 5.5 says only that it cannot connect.
    reason = "serving, not replicating: IO thread Connecting: error connecting to "

    until(lambda: pair.replica.health()[1].lower().startswith(reason.lower()), "the reason")

    assert 1 == pair.replica.health()[0]


def test_health_tells_the_source_of_a_replica_that_replicates(pair):
    """With the right password the replica is healthy, names its source, and has the source's rows."""
    pair.use_right_password()
    until(lambda: pair.replica.health()[0] == 0, "the replica to be healthy")
    pair.source.run("INSERT INTO shop.visits VALUES (1)")

    assert (0, f"serving, replicating from {pair.source.name}:3306") == pair.replica.health()
    assert until(lambda: pair.replica.ask("SELECT * FROM shop.visits"), "the row to arrive") == ((1,),)


def test_replica_continues_after_restart(pair):
    """A restart does not repeat the first start's CHANGE statement, which still has the wrong password."""
    pair.replica.container.restart()

    until(lambda: pair.replica.health()[0] == 0, "the replica to be healthy again")


def test_health_tells_a_stopped_applier(pair):
    """A replica whose applier stopped on an error is not healthy although it receives everything."""
    pair.replica.run("SET SESSION sql_log_bin = 0; INSERT INTO shop.visits VALUES (2)")
    pair.source.run("INSERT INTO shop.visits VALUES (2)")

    _, line = until(lambda: (found := pair.replica.health())[0] == 1 and found, "the applier to stop")

    # Which error it was, a server with several appliers tells in its log only.
    assert line.startswith("serving, not replicating: SQL thread No: ")
    assert len(line) > len("serving, not replicating: SQL thread No: ")
