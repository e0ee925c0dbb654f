"""What MariaDB's recovery makes of a commit that still waited for a replica when the source died."""

from threading import Thread

import pymysql
import pytest

from tests.images.conftest import until

# A source without a replica, on which a commit waits at AFTER_SYNC for as long as the test takes.
WAITS = (
    "--server-id=1",
    "--log-bin=bin",
    "--rpl-semi-sync-master-timeout=600000",
    "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
)


@pytest.mark.long
@pytest.mark.parametrize(("role", "rows"), [("MASTER", [1, 2]), ("SLAVE", [1])])
def test_a_commit_that_no_replica_has_is_kept_by_a_source_and_rolled_back_by_a_replica(stage, role, rows):
    """docs/semisync.md says so; other servers have no such option."""
    if stage.engine.image != "replication-lab/mariadb":
        pytest.skip("MariaDB 11.8 has this option")
    volumes = {stage.volume().name: {"bind": "/var/lib/mysql"}}
    source = stage.server(*WAITS, volumes=volumes).wait()
    source.run(
        "CREATE DATABASE shop; CREATE TABLE shop.visits (id INT PRIMARY KEY); INSERT INTO shop.visits VALUES (1)"
    )
    source.run("SET GLOBAL rpl_semi_sync_master_enabled = ON")

    def visit():
        with pytest.raises(pymysql.err.OperationalError):
            source.ask("INSERT INTO shop.visits VALUES (2)")

    client = Thread(target=visit)
    client.start()
    until(lambda: "semi-sync ACK" in str(source.ask("SHOW PROCESSLIST")), "the commit to wait")
    source.container.kill("SIGKILL")
    client.join()
    source.exit_code()
    again = stage.server(*WAITS, f"--init-rpl-role={role}", volumes=volumes, password=source.password).wait()

    assert [row for (row,) in again.ask("SELECT id FROM shop.visits ORDER BY id")] == rows
