"""What can go wrong in the middle of a load of the fake world: functions of the lab, handed in as `meanwhile`."""

from collections.abc import Callable

from replication_lab.model.core.errors import LabError, TooSlow
from replication_lab.world.mysql.semisync import SemiSync

from tests.fakes.lab import FakeLab

Meanwhile = Callable[[FakeLab, int], None]


def nothing(_lab: FakeLab, _load: int) -> None:
    """Leave the load undisturbed."""


def fall_back(lab: FakeLab, _load: int = 0) -> None:
    """Let the source give up waiting and continue asynchronously."""
    source = lab.node(lab.topology.source.name).server()
    if SemiSync(source).status().enabled:
        source.fall_back()


def switch_semisync_off(lab: FakeLab, _load: int = 0) -> None:
    """Set the variable as another administrator would."""
    SemiSync(lab.node(lab.topology.source.name).server()).set(False)


def take_toxics_off(lab: FakeLab, _load: int = 0) -> None:
    """Remove every toxic as another user of Toxiproxy would."""
    for link in lab.topology.links:
        running = lab.link(link.name)
        for body in running.toxics():
            running.remove(body.name)


def keep_in_memory(lab: FakeLab, _load: int = 0) -> None:
    """Raise tmp_table_size, so that the temporary tables need no disk any more."""
    lab.grouping.fits = True


def diverge(lab: FakeLab, _load: int = 0) -> None:
    """Change a replica's rows without an error of replication."""
    for node in lab.topology.replicas:
        lab.node(node.name).server().differs = True


def leave(lab: FakeLab, _load: int = 0) -> None:
    """Cut the cluster's last node off, so that the others continue without it."""
    lab.node(lab.topology.nodes[-1].name).server().left = True
    lab.group.view += 1


def lose_an_update(lab: FakeLab, _load: int = 0) -> None:
    """Acknowledge a change that no copy keeps."""
    lab.rows.forgets = True


def fail_load(_lab: FakeLab, _load: int = 0) -> None:
    """End the load generator with an error."""
    raise LabError(
        "`sysbench` in load ended with status 1:\n  FATAL: mysql_drv_query() returned error 2013", "exit status 0"
    )


def be_too_slow(_lab: FakeLab, _load: int = 0) -> None:
    """End the load because a slow moment of the machine left too few readings."""
    raise TooSlow("the host was too busy: 3 readings", "five readings")


def lengthen_links(lab: FakeLab, _load: int = 0) -> None:
    """Make each round trip 40 ms longer, as a machine that is busy for a moment does."""
    for link in lab.topology.links:
        lab.link(link.name).busy_ms = 40.0


def shorten_links(lab: FakeLab, _load: int = 0) -> None:
    """End what `lengthen_links` did."""
    for link in lab.topology.links:
        lab.link(link.name).busy_ms = 0.0


def interrupt(_lab: FakeLab, _load: int = 0) -> None:
    """Send SIGTERM."""
    raise KeyboardInterrupt("SIGTERM")


def crash(_lab: FakeLab, _load: int = 0) -> None:
    """Raise an error of the harness itself."""
    raise ZeroDivisionError("a defect of the harness")
