"""An old source that hangs is fenced at once, and no client is told of a commit that is lost, on real servers."""

import threading
import time

import pytest
from replication_lab.faults.toxic_calibration import put
from replication_lab.model.core.errors import LabError
from replication_lab.replication import failover
from replication_lab.world import catalogue, clock
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync

from tests.lab import level as level_fixtures
from tests.lab.level import AT_ONCE, OF_PAIRS, count, level, param, refused, write

labs, lab = level_fixtures.labs, level_fixtures.lab


class Writer(threading.Thread):
    """A client that writes one row after another on the source, whatever happens; it notes what was confirmed."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.lab, self.confirmed, self.failed, self.ended = lab, [], [], threading.Event()

    def run(self):
        number = 0
        while not self.ended.is_set():
            number += 1
            try:
                # A server that was started again has another port.
                server = self.lab.node("source").server().as_application()
                with server.session(answer_seconds=60) as session, session.cursor() as cursor:
                    cursor.execute(f"INSERT INTO lab.acknowledged VALUES ({number})")
                    self.confirmed.append(number)
            except LabError as error:
                self.failed.append((error.found, time.monotonic()))
            clock.pause(0.01, self.ended)


def ids(lab, node):
    return {row["id"] for row in lab.node(node).server().rows("SELECT id FROM lab.acknowledged")}


@pytest.mark.parametrize(
    "lab",
    [param("semisync", engine, engine == "mariadb") for engine in ("mariadb", "mysql-8.0", "mysql-5.6")],
    indirect=True,
)
@pytest.mark.parametrize("wait_point", ["AFTER_SYNC", pytest.param("AFTER_COMMIT", marks=pytest.mark.long)])
def test_a_source_whose_commits_wait_is_fenced_at_once_and_confirms_none_of_them(lab, wait_point):
    """Refused without a change as long as a waiting commit would be lost; then no client is told of one that is."""
    source = lab.node("source").server()
    if not (has := SemiSync(source).status().wait_point) and wait_point == "AFTER_SYNC":
        pytest.skip("5.6 has only AFTER_COMMIT")
    SemiSync(source).set(True, wait_point if has else None, 600_000)
    source.execute("CREATE TABLE IF NOT EXISTS lab.acknowledged (id INT PRIMARY KEY)", "DELETE FROM lab.acknowledged")
    level(lab, "replica")
    writer = Writer(lab)
    writer.start()
    clock.wait_until(lambda: len(writer.confirmed) > 3, "confirmed rows")
    put(lab.link("source-replica"), catalogue.toxic("black-hole"))
    state = "semi-sync ACK"
    clock.wait_until(
        lambda: any(state in (row["State"] or "") for row in source.rows("SHOW PROCESSLIST")), "a commit that waits"
    )
    replica = Replica(lab.node("replica").server())
    clock.wait_until(lambda: not replica.backlog(), "the replica to have applied what it received")
    try:
        started = lab.node("source").started_at()
        refused(lab, "replica is behind: ", seconds=10)
        assert lab.node("source").started_at() == started
        waits, began = len(writer.failed), time.monotonic()
        done = failover.failover(lab, "replica", allow_data_loss=True)
        fenced_after = writer.failed[waits][1] - began
        said = len(writer.confirmed)
        clock.wait_until(lambda: "read-only" in writer.failed[-1][0], "the writer to be refused")
    finally:
        writer.ended.set()
        writer.join()

    assert "source had commits or locks that waited: it was killed and starts again as read-only" in done.fenced
    assert fenced_after < AT_ONCE
    assert len(writer.confirmed) == said, "a commit was confirmed after the fence"
    assert set(writer.confirmed) <= ids(lab, "replica")
    assert done.lost >= 1 and "source has" in done.lacks


@pytest.mark.parametrize("lab", OF_PAIRS, indirect=True)
def test_a_frozen_source_does_not_make_a_failover_wait(lab):
    """It is killed, since it would go on with its commits when it is resumed; then it is compared like any other."""
    write(lab, "source", 1)
    level(lab, "replica")
    lab.node("source").pause()
    began = time.monotonic()
    done = failover.failover(lab, "replica")

    assert "source was frozen: it was killed and starts again as read-only" in done.fenced
    assert time.monotonic() - began < 4 * AT_ONCE
    assert count(lab, "source") == count(lab, "replica")
    with pytest.raises(LabError, match="read-only"):
        lab.node("source").server().as_application().execute("CREATE TABLE lab.refused (id INT)")
