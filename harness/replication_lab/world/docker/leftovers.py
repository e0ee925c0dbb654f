"""Removal of labs, to the last volume, and of leftovers of killed processes."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby

from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.world import clock, lab_files, lock, owners
from replication_lab.world.docker import attachments, labels, machine, removal, sites, swarm

# How a project is named that was attached, not made by the lab: it is restored, not removed.
ATTACHED = "the attachment of "
# The containers of emulated disks, in the order of their removal.
PARTS = ("array", "disk")
# How often in a row a project's things are listed and removed, and for how long the engine may create others.
LOOKS, CREATED_SECONDS, POLL_SECONDS = 5, 30, 0.1


def remove(project: str, forgotten: Collection[str] = ()) -> None:
    """Remove a project's containers (with their anonymous volumes), networks, volumes and state files.

    LabError if one of its sites does not answer, unless it is `forgotten`; the files, which name the site, then stay.
    """
    # While a project is removed, the engine may still create what an interrupted `docker compose` had asked for.
    clock.wait_until(
        lambda: any(not _remove_found(project) for _ in range(LOOKS)),
        f"{project} to be removed",
        CREATED_SECONDS,
        POLL_SECONDS,
    )
    sites.refuse_silent(project, forgotten)
    if not attachments.is_elsewhere(project):
        lab_files.remove(project)


def _remove_found(project: str) -> bool:
    """Remove what a project has now; return whether it had anything."""
    clients, only = sites.clients(project), {"label": [labels.LABEL, f"{labels.PROJECT}={project}"]}
    # A server has to release its file system first, then the array its disks; the disks themselves need no order.
    containers = sorted(labels.containers(project), key=_place)
    for _, part in groupby(containers, _place):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(removal.remove_container, part))
    networks = [network for client in clients for network in client.networks.list(filters=only)]
    for network in networks:
        if not swarm.is_removed_elsewhere(network):
            removal.unless_gone(network, "remove")
    volumes = [volume for client in clients for volume in client.volumes.list(filters=only)]
    # A container that the engine has created since may use one; the next look finds it.
    with suppress(removal.InUse):
        for volume in volumes:
            removal.remove_volume(volume)
    return bool(containers or networks or volumes)


def _place(container: Container) -> int:
    return PARTS.index(part) if (part := container.labels.get(labels.PART)) in PARTS else -1


def left_behind() -> list[str]:
    """Return what killed commands of this checkout left behind: labs, and attachments of projects."""
    return [*_left_labs(), *(f"{ATTACHED}{project}" for project in _left_attached())]


def _left_labs() -> list[str]:
    """Return the projects whose process ended without finishing or removing them."""
    saved = lab_files.names(lab_files.STATE)
    found = labels.owners().items()
    return sorted(name for name, marks in found if name not in saved and all(map(owners.is_left, marks)))


def _left_attached() -> list[str]:
    """Return the attached projects whose process ended without finishing or restoring them.

    Also those whose added containers were removed by other means. A file of an earlier version does not name its Docker
    engine, so they may be in another one.
    """
    there, saved = attachments.containers(), lab_files.names(lab_files.STATE)
    return [
        project
        for project, kept in attachments.all_kept().items()
        if owners.is_dead(kept.owner) and (project not in saved or (kept.engine_id and project not in there))
    ]


def _left_files() -> list[str]:
    """Return the labs that have files, but nothing in this engine, and whose process has ended."""
    there = labels.owners()
    return [name for name in lab_files.names(lab_files.SETTINGS) if name not in there and _is_gone(name)]


def _is_gone(name: str) -> bool:
    """Return whether a lab that this engine does not have was in this one, and its process has ended.

    A file of an earlier version does not name its engine: a lab that came up completely may be in another one.
    """
    settings = lab_files.settings(name)
    engine_id = settings.get(lab_files.ENGINE_ID, "")
    is_here = not machine.is_another(engine_id) if engine_id else name not in lab_files.names(lab_files.STATE)
    if not is_here or not owners.is_dead(settings.get("LAB_OWNER", "")):
        return False
    with suppress(LabError):
        sites.refuse_silent(name)
        return True
    return False


def sweep(tell: Tell = print) -> list[str]:
    """Remove what killed commands left behind, and restore projects that they attached; return the names.

    Tell what cannot be removed or restored, and go on.
    """
    stale = [name for name in _left_labs() if _done(name, _left_labs, remove, tell)]
    for name in _left_files():
        _done(name, _left_files, lab_files.remove, tell)
    restored = [name for name in _left_attached() if _done(name, _left_attached, attachments.restore, tell)]
    return [*stale, *(f"{ATTACHED}{project}" for project in restored)]


def _done(name: str, left: Callable[[], list[str]], act: Callable[[str], None], tell: Tell) -> bool:
    """Call `act` with a leftover, unless another command changes or starts it now; return whether that succeeded."""
    with lock.lab_if_free(name, "lab") as by:
        # Another command may have removed it and started a lab of that name since it was looked for.
        if by or name not in left():
            return False
        try:
            act(name)
        except LabError as error:
            tell(f"warning: what a killed command left of {name} is still there: {error}")
            return False
    return True
