"""The lab that is viewed: one that is up, or one that is started for the view and removed after it."""

from collections.abc import Iterator
from contextlib import contextmanager

from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import project
from replication_lab.world.docker.attached import refuse_attached
from replication_lab.world.docker.lab import Lab

USUAL = "semisync"


@contextmanager
def viewed(topology: str | None, name: str | None, server: str | None, tell: Tell) -> Iterator[Lab]:
    """Yield the lab of that name, or of that topology; start one, for the block only, if it is not up.

    Without both it is the only lab that is up. `server` is that of a lab that has to be started.
    """
    docker_engine.ensure()
    running = project.all_labs()
    wanted = name or (f"lab-{topology}" if topology or not running else None)
    if wanted is None or wanted in running:
        lab = project.find(wanted)
        refuse_attached(lab, "live")
        _refuse_another(lab, topology)
        up.refuse_in_use(lab)
        yield lab
        return
    found = catalogue.topology(topology or USUAL)
    wanted = name or f"lab-{found.name}"
    if name and not topology:
        raise LabError(
            f"no lab {name!r} is running", "its topology as well, to start the lab", f"./lab live {USUAL} --lab {name}"
        )
    asked = LabRequest(found, server or catalogue.default_engine(found.name), wanted, keep=False)
    lab = up.up(asked, tell)
    try:
        yield lab
    finally:
        with signals.signals_held():
            lab.down()
        tell(f"{lab.name} is removed")


def _refuse_another(lab: Lab, topology: str | None) -> None:
    if topology and lab.topology.name != topology:
        raise LabError(f"{lab.name} is a lab of {lab.topology.name}", topology, f"./lab live --lab {lab.name}")
