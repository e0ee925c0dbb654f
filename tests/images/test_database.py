"""The contract of the database images: what the vendors' images do, done by ours."""

import gzip
import secrets

import pymysql
import pytest
from conftest import until

SHOP = "CREATE TABLE shop.visits (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20));\n"


def visit(who):
    return f"INSERT INTO shop.visits (who) VALUES ('{who}');\n"


def visitors(server):
    return [who for (who,) in server.ask("SELECT who FROM shop.visits ORDER BY id")]


# --- an ordinary node --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(stage):
    """A node with a database, a user and a hook, as a Compose file would ask for it."""
    password = secrets.token_hex(8)
    environment = {
        "MYSQL_ROOT_PASSWORD": password,
        "MYSQL_DATABASE": "shop",
        "MYSQL_USER": "clerk",
        "MYSQL_PASSWORD": "it's \\ 'quoted'",
    }
    hooks = {"10-shop.sql": SHOP + visit("hook")}
    return stage.server("--server-id=7", hooks=hooks, environment=environment, password=password).wait()


def test_root_logs_in_with_the_given_password_only(node):
    """The root password of the environment opens the server, and no other does."""
    assert ((1,),) == node.ask("SELECT 1")

    for wrong in ("", "wrong"):
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            node.connect(password=wrong)


def test_no_account_exists_but_the_requested_ones(node):
    """No anonymous user and no root of another host is left to shadow an account."""
    accounts = node.ask("SELECT user, host FROM mysql.user WHERE user NOT LIKE '%.%'")

    assert {("root", "%"), ("root", "localhost"), ("clerk", "%")} == set(accounts)


def test_user_owns_the_database_and_nothing_else(node):
    """The user of the environment works in its database and may not look into others."""
    with node.connect("clerk", "it's \\ 'quoted'", database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE till (cents INT)")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("SELECT * FROM mysql.user")


def test_flags_reach_the_server(node):
    """A flag given as the container's command is a setting of the server."""
    assert ((7,),) == node.ask("SELECT @@server_id")


def test_health_tells_serving(node):
    """A server that nobody asked to replicate is healthy when it serves."""
    assert (0, "serving") == node.health()


def test_role_replica_without_source_is_unhealthy(node):
    """A node that is meant to be a replica is not healthy until it is told its source."""
    code, line = node.execute("env", "LAB_ROLE=replica", "lab-health")

    assert (1, "serving, not replicating: no source is configured") == (code, line)


def test_health_tells_not_serving(node):
    """A server that does not answer is told apart from one that does not replicate."""
    code, line = node.execute("env", "MYSQL_TCP_PORT=3399", "lab-health")

    assert 1 == code
    assert line.startswith("not serving: ")


def test_server_is_process_one_and_unprivileged(node):
    """The server itself is process 1, runs as mysql and holds no capability."""
    _, command = node.execute("cat", "/proc/1/comm")
    _, status = node.execute("cat", "/proc/1/status")

    assert command in ("mariadbd", "mysqld")
    assert "Uid:\t999\t999\t999\t999" in status
    assert "CapEff:\t0000000000000000" in status


def test_data_survives_kill_and_hooks_do_not_run_again(node):
    """After SIGKILL the node comes back with every committed row, and the first start is not repeated."""
    node.run(visit("client"))

    node.container.kill("SIGKILL")
    node.exit_code()
    node.container.start()
    node.wait()

    assert ["hook", "client"] == visitors(node)


def test_sigterm_stops_the_server_cleanly(node):
    """SIGTERM ends in an orderly shutdown, within five seconds."""
    node.wait().container.kill("SIGTERM")

    assert 0 == node.container.wait(timeout=5)["StatusCode"]
    assert "Shutdown complete" in node.log()


# --- hooks that an init file cannot hold -------------------------------------------------------------------------------

# The first run of the script waits to be killed.
HANG_ONCE = """#!/bin/bash
if [ ! -e /tmp/second ]; then touch /tmp/second; exec sleep infinity; fi
"""


@pytest.fixture(scope="module")
def interrupted(stage):
    """A node with hooks of every kind, killed in the middle of the first start and started again."""
    hooks = {
        "10-shop.sql": "CREATE DATABASE shop;\n" + SHOP + "DELIMITER //\nSELECT 1 //\n",
        "20-hang.sh": HANG_ONCE,
        "30-visit.sh": '#!/bin/bash\nMYSQL_PWD=$MYSQL_ROOT_PASSWORD $CLIENT -uroot -e "' + visit("script").strip() + '"',
        "40-visit.sql.gz": gzip.compress(visit("archive").encode()),
        "README": "ignored",
    }
    password = secrets.token_hex(8)
    client = "mariadb" if "mariadb" in stage.engine.image else "mysql"
    environment = {"MYSQL_ROOT_PASSWORD": password, "CLIENT": client}
    server = stage.server(hooks=hooks, environment=environment, password=password)
    until(lambda: "hook /docker-entrypoint-initdb.d/20-hang.sh" in server.log(), "the hook that hangs")
    server.container.kill("SIGKILL")
    server.exit_code()
    server.container.start()
    return server.wait()


def test_first_start_that_was_killed_begins_anew(interrupted):
    """A first start that was killed half-way is not taken for a finished one: all hooks run, each once."""
    assert "the first start was interrupted; begins anew" in interrupted.log()
    assert ["script", "archive"] == visitors(interrupted)


def test_script_hooks_do_not_run_on_restart(interrupted):
    """Scripts and archives run on the first start only."""
    interrupted.container.restart()
    interrupted.wait()

    assert ["script", "archive"] == visitors(interrupted)


def test_half_copied_data_directory_is_replaced(stage):
    """A data directory whose copy was cut off is thrown away and copied again."""
    volume = stage.volume()
    mounts = {volume.name: {"bind": "/var/lib/mysql"}}
    half = "cd /var/lib/mysql && touch .first-start.sql && echo half >ibdata1"
    stage.server("bash", "-c", half, volumes=mounts).exit_code()

    assert ((1,),) == stage.server(volumes=mounts).wait().ask("SELECT 1")


def test_data_directory_with_data_is_taken_as_it_is(stage):
    """A second container on the same volume finds the first one's accounts; its own settings for a first start are void."""
    volume = stage.volume()
    mounts = {volume.name: {"bind": "/var/lib/mysql"}}
    first = stage.server(volumes=mounts, environment={"MYSQL_RANDOM_ROOT_PASSWORD": "1"}, password="")
    until(lambda: "ready for connections" in first.log(), "the first container to serve")
    first.password = first.log().partition("GENERATED ROOT PASSWORD: ")[2].split()[0]
    first.wait().container.stop()

    assert ((1,),) == stage.server(volumes=mounts, password=first.password, environment={}).wait().ask("SELECT 1")


# --- errors ------------------------------------------------------------------------------------------------------------


def test_missing_root_password_is_told_in_one_line(stage):
    """Without any setting for root's password the container stops and names the three."""
    server = stage.server(environment={})

    assert 1 == server.exit_code()
    assert 1 == len(server.log().splitlines())
    assert "MYSQL_ROOT_PASSWORD, MYSQL_RANDOM_ROOT_PASSWORD, MYSQL_ALLOW_EMPTY_PASSWORD" in server.log()


def test_setting_given_twice_is_refused(stage):
    """A variable and its _FILE form together are an error, not a silent choice."""
    server = stage.server(environment={"MYSQL_ROOT_PASSWORD": "a", "MYSQL_ROOT_PASSWORD_FILE": "/b"})

    assert 1 == server.exit_code()
    assert "both MYSQL_ROOT_PASSWORD and MYSQL_ROOT_PASSWORD_FILE are set" in server.log()


def test_failed_statement_of_a_hook_is_told_by_the_health_check(stage):
    """A server that goes on after a failed hook is not healthy, and its log names the statement's error."""
    server = stage.server(hooks={"10-bad.sql": "CREATE TABLE nowhere.t (id INT);\n"}).wait()

    code, line = server.health()

    assert 1 == code
    assert line.startswith("not serving: a statement of the first start failed")
    assert "nowhere" in server.log()


def test_failed_script_hook_stops_the_container(stage):
    """A script that fails ends the first start with its name and its exit code."""
    server = stage.server(hooks={"10-bad.sh": "#!/bin/bash\nexit 42\n"})

    assert 42 == server.exit_code()
    assert "hook /docker-entrypoint-initdb.d/10-bad.sh failed with exit code 42" in server.log()


def test_any_command_runs_instead_of_the_server(stage):
    """Another command is run as it is, without a first start."""
    server = stage.server("bash", "-c", "echo hello")

    assert 0 == server.exit_code()
    assert "hello" == server.log().strip()
