"""The contract of the database images: what the vendors' images do, done by ours."""

import gzip
import secrets
import time
from types import SimpleNamespace

import pymysql
import pytest

from tests.images.conftest import PATIENCE_S, until

HOOKS = "/docker-entrypoint-initdb.d"
OF_ROOT = {"/var/lib/mysql": "uid=0,mode=755"}
# As in compose/_parts.yaml: then Docker kills it, and its status says so.
GRACE_S = 30
CLERKS_PASSWORD = "it's \\ 'quoted'"
SHOP = "CREATE TABLE shop.visits (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(20));\n"
# The first run waits to be killed.
HANG_ONCE = """#!/bin/bash
if [ ! -e /tmp/second ]; then touch /tmp/second; exec sleep infinity; fi
"""
VISIT_BY_SCRIPT = """#!/bin/bash
client=$(command -v mariadb || command -v mysql)
MYSQL_PWD=$MYSQL_ROOT_PASSWORD $client -uroot -e "INSERT INTO shop.visits (who) VALUES ('script')"
"""


def visit(who):
    return f"INSERT INTO shop.visits (who) VALUES ('{who}');\n"


def visitors(server):
    return [who for (who,) in server.ask("SELECT who FROM shop.visits ORDER BY id")]


@pytest.fixture(scope="module", autouse=True)
def cast(stage):
    """Start the servers of this file together, as starting takes the time; each test waits for its own."""
    volume = stage.volume()
    return SimpleNamespace(
        node=ordinary_node(stage),
        interrupted=stage.server(files={HOOKS: hooks_of_every_kind()}),
        half_copied=stage.server(files={"/var/lib/mysql": {".first-start.sql": "", "ibdata1": "half"}}),
        random=server_on(stage, volume, environment={"MYSQL_RANDOM_ROOT_PASSWORD": "1"}, password=""),
        bad_statement=stage.server(files={HOOKS: {"10-bad.sql": "CREATE TABLE nowhere.t (id INT);\n"}}),
        # What handing a data directory over takes, and no more.
        started_as_root=stage.server(user="root", cap_add=["CHOWN", "DAC_OVERRIDE", "SETUID", "SETGID"], tmpfs=OF_ROOT),
        unwritable=stage.server(tmpfs=OF_ROOT),
        bad_script=stage.server(files={HOOKS: {"10-bad.sh": "#!/bin/bash\nexit 42\n"}}),
        volume=volume,
    )


def ordinary_node(stage):
    password = secrets.token_hex(8)
    environment = {
        "MYSQL_ROOT_PASSWORD_FILE": f"{HOOKS}/password",
        "MYSQL_DATABASE": "shop",
        "MYSQL_USER": "clerk",
        "MYSQL_PASSWORD": CLERKS_PASSWORD,
    }
    files = {HOOKS: {"10-shop.sql": SHOP + visit("hook"), "password": password}}
    return stage.server("--server-id=7", files=files, environment=environment, password=password)


def hooks_of_every_kind():
    return {
        "10-shop.sql": "CREATE DATABASE shop;\n" + SHOP + "DELIMITER //\nSELECT 1 //\n",
        "20-hang.sh": HANG_ONCE,
        "30-visit.sh": VISIT_BY_SCRIPT,
        "40-visit.sql.gz": gzip.compress(visit("archive").encode()),
        "README": "ignored",
    }


def server_on(stage, volume, **options):
    return stage.server(volumes={volume.name: {"bind": "/var/lib/mysql"}}, **options)


# --- an ordinary node -------------------------------------------------------------------------------------------------


@pytest.fixture
def node(cast):
    """Return a running node with a database, a user and a hook, as a Compose file would define it."""
    return cast.node.wait()


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


def test_a_certificate_has_an_elliptic_key_and_gives_way_to_ones_own(node, stage):
    """An RSA key would take up to a second of each start; of two certificates the user's is presented."""
    # One server is built without TLS, and lacks the variable.
    if not dict(node.ask("SHOW VARIABLES LIKE 'ssl_cert'")).get("ssl_cert", "").startswith("/etc/mysql/start.d/"):
        pytest.skip("this server makes no certificate at its start")
    kind = "openssl x509 -noout -text -in /etc/mysql/start.d/certificate.pem | grep 'Public Key Algorithm'"
    both = said_in(node, "openssl req -x509 -newkey rsa:2048 -noenc -subj /CN=own -keyout - -out - 2>/dev/null")
    settings = "[mariadbd]\nssl_cert = /etc/mysql/conf.d/own.pem\nssl_key = /etc/mysql/conf.d/own.pem\n"
    given = stage.server(files={"/etc/mysql/conf.d": {"own.cnf": settings, "own.pem": both}})

    assert "id-ecPublicKey" in said_in(node, kind)
    assert "MariaDB Server" in subject(node)
    assert "own" in subject(given.wait())


def said_in(server, command):
    return server.container.exec_run(["sh", "-c", command]).output.decode()


def subject(server):
    """Return the line that names the holder of the certificate that a server presents."""
    command = "openssl s_client -connect 127.0.0.1:3306 -starttls mysql </dev/null 2>/dev/null | grep ^subject"
    return said_in(server, command)


def test_user_owns_the_database_and_nothing_else(node):
    """The user of the environment works in its database and may not look into others."""
    with node.connect("clerk", CLERKS_PASSWORD, database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE till (cents INT)")
        with pytest.raises(pymysql.err.OperationalError, match="denied"):
            cursor.execute("SELECT * FROM mysql.user")


def test_flags_reach_the_server(node):
    """A flag given as the container's command is a setting of the server."""
    assert ((7,),) == node.ask("SELECT @@server_id")


def test_health_tells_serving(node):
    """A server without a configured source is healthy when it serves."""
    assert (0, "serving") == node.health()


def test_health_leaves_no_passwords_in_the_data_directory(node):
    """Once the node serves, the init file with its passwords is gone."""
    node.health()

    _, names = node.execute("ls", "-A", "/var/lib/mysql")
    assert "first-start" not in names


def test_role_replica_without_source_is_unhealthy(node):
    """A node that is meant to be a replica is not healthy until it is told its source."""
    answer = node.execute("env", "LAB_ROLE=replica", "lab-health")

    assert (1, "serving, not replicating: no source is configured") == answer


def test_a_replica_that_was_promoted_is_healthy_without_source(node):
    """The options of its role say so."""
    node.container.exec_run(["sh", "-c", "echo --read-only=0 >/etc/mysql/role"], user="root")
    answer = node.execute("env", "LAB_ROLE=replica", "lab-health")
    node.container.exec_run(["rm", "/etc/mysql/role"], user="root")

    assert (0, "serving, promoted: it has no source") == answer


def test_health_tells_not_serving(node):
    """A server that does not answer is told apart from one that does not replicate, and is waited for."""
    began = time.monotonic()
    code, line = node.execute("env", "MYSQL_TCP_PORT=3399", "lab-health")

    assert 1 == code
    assert line.startswith("not serving: ")
    assert time.monotonic() - began > 1.5


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

    node.kill_and_start()

    assert ["hook", "client"] == visitors(node.wait())


def test_sigterm_stops_the_server_cleanly(node):
    """In an orderly shutdown, in the time that Compose leaves it."""
    node.container.stop(timeout=GRACE_S)

    assert 0 == node.container.wait(timeout=PATIENCE_S)["StatusCode"]
    assert "Shutdown complete" in node.log()


# --- first starts that are not ordinary -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def interrupted(cast):
    """Return a node that was killed in its first start, in a hook that an init file cannot hold, and started again."""
    server = cast.interrupted
    until(lambda: f"hook {HOOKS}/20-hang.sh" in server.log(), "the hook that hangs")
    server.kill_and_start()
    return server.wait()


def test_first_start_that_was_killed_begins_anew(interrupted):
    """A first start that was killed half-way is not taken for a finished one: all hooks run, each once."""
    assert "the first start was interrupted; starting over" in interrupted.log()
    assert ["script", "archive"] == visitors(interrupted)


def test_script_hooks_do_not_run_on_restart(interrupted):
    """Scripts and archives run on the first start only."""
    interrupted.kill_and_start()

    assert ["script", "archive"] == visitors(interrupted.wait())


def test_half_copied_data_directory_is_replaced(cast):
    """A data directory whose copy was cut off is thrown away and copied again."""
    assert ((1,),) == cast.half_copied.wait().ask("SELECT 1")


def test_random_root_password_is_told_in_the_log(cast):
    """A generated password opens the server; the health check, which does not know it, tells that it serves."""
    server = cast.random
    until(lambda: server.health()[0] == 0, "the server with a random password to be healthy")
    server.password = server.log().partition("GENERATED ROOT PASSWORD: ")[2].split()[0]

    assert ((1,),) == server.ask("SELECT 1")


def test_data_directory_with_data_is_taken_as_it_is(cast, stage):
    """A second container on the same volume finds the first one's accounts and needs no settings for a first start."""
    cast.random.container.kill()
    second = server_on(stage, cast.volume, environment={}, password=cast.random.password)

    assert ((1,),) == second.wait().ask("SELECT 1")


# --- errors -----------------------------------------------------------------------------------------------------------


def test_missing_root_password_is_told_in_one_line(stage):
    """Without any setting for root's password the container stops and names the three."""
    server = stage.server(environment={})

    assert 1 == server.exit_code()
    assert 1 == len(server.log().splitlines())
    assert "MYSQL_ROOT_PASSWORD, MYSQL_RANDOM_ROOT_PASSWORD, MYSQL_ALLOW_EMPTY_PASSWORD" in server.log()


def test_unwritable_data_directory_is_told(cast):
    """A data directory of another account is an error that names the owner it needs."""
    assert 1 == cast.unwritable.exit_code()
    assert "/var/lib/mysql cannot be written by uid 999; on the host: chown -R 999" in cast.unwritable.log()


def test_started_as_root_the_server_still_runs_as_mysql(cast):
    """As in the vendors' images, root only hands the data directory over."""
    _, status = cast.started_as_root.wait().execute("cat", "/proc/1/status")

    assert "Uid:\t999\t999\t999\t999" in status


def test_setting_given_twice_is_refused(stage):
    """A variable and its _FILE form together are an error, not a silent choice."""
    server = stage.server(environment={"MYSQL_ROOT_PASSWORD": "a", "MYSQL_ROOT_PASSWORD_FILE": "/b"})

    assert 1 == server.exit_code()
    assert "both MYSQL_ROOT_PASSWORD and MYSQL_ROOT_PASSWORD_FILE are set" in server.log()


def test_failed_statement_of_a_hook_is_told_by_the_health_check(cast):
    """A server that goes on after a failed hook is not healthy, and its log names the statement's error."""
    code, line = cast.bad_statement.wait().health()

    assert 1 == code
    assert line.startswith("not serving: a statement of the first start failed")
    assert "nowhere" in cast.bad_statement.log()


def test_failed_script_hook_stops_the_container(cast):
    """A script that fails ends the first start with its name and its exit code."""
    assert 42 == cast.bad_script.exit_code()
    assert f"hook {HOOKS}/10-bad.sh failed with exit code 42" in cast.bad_script.log()


def test_any_command_runs_instead_of_the_server(stage):
    """Another command is run as it is, without a first start."""
    server = stage.server("bash", "-c", "echo hello")

    assert 0 == server.exit_code()
    assert "hello" == server.log().strip()
