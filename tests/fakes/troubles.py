"""What can go wrong in the middle of a load of the fake world: functions of the lab, handed in as `meanwhile`."""

from collections.abc import Callable

from replication_lab.model.errors import LabError
from replication_lab.world.mysql.semisync import SemiSync

from tests.fakes.lab import FakeLab

Meanwhile = Callable[[FakeLab, int], None]


def nothing(_lab: FakeLab, _load: int) -> None:
    """An undisturbed load."""


def fall_back(lab: FakeLab, _load: int = 0) -> None:
    """The source gives up waiting and goes on asynchronously."""
    source = lab.node(lab.topology.source.name).server()
    if SemiSync(source).status().enabled:
        source.fall_back()


def switch_semisync_off(lab: FakeLab, _load: int = 0) -> None:
    """Somebody else sets the variable."""
    SemiSync(lab.node(lab.topology.source.name).server()).set(False)


def take_toxics_off(lab: FakeLab, _load: int = 0) -> None:
    """Somebody else heals every link."""
    for link in lab.topology.links:
        running = lab.link(link.name)
        for body in running.toxics():
            running.remove(body["name"])


def keep_in_memory(lab: FakeLab, _load: int = 0) -> None:
    """Somebody raises tmp_table_size: the temporary tables need no disk any more."""
    lab.grouping.fits = True


def diverge(lab: FakeLab, _load: int = 0) -> None:
    """A replica's rows become others than its source's, without an error of replication."""
    for node in lab.topology.replicas:
        lab.node(node.name).server().differs = True


def leave(lab: FakeLab, _load: int = 0) -> None:
    """The cluster's last node is cut off, and the others go on without it."""
    lab.node(lab.topology.nodes[-1].name).server().left = True
    lab.group.view += 1


def leave_and_come_back(lab: FakeLab, _load: int = 0) -> None:
    """A node is gone for a moment: afterwards all looks as before, but for the number of views."""
    lab.group.view += 2


def lose_an_update(lab: FakeLab, _load: int = 0) -> None:
    """A change is acknowledged and kept on no copy."""
    lab.rows.forgets = True


def fail_load(_lab: FakeLab, _load: int = 0) -> None:
    """The load generator ends with an error."""
    raise LabError("`sysbench` in load ended with 1:\n  FATAL: mysql_drv_query() returned error 2013", "exit status 0")


def interrupt(_lab: FakeLab, _load: int = 0) -> None:
    """Somebody sends SIGTERM."""
    raise KeyboardInterrupt("SIGTERM")


def crash(_lab: FakeLab, _load: int = 0) -> None:
    """The harness itself fails."""
    raise ZeroDivisionError("a defect of the harness")
