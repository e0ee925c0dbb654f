"""Removal of labs, to the last volume, and of leftovers of killed processes."""

from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.models.volumes import Volume

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock, lab_files, lock, owners
from replication_lab.world.docker import attachments, labels
from replication_lab.world.docker import engine as docker_engine

# How a project is named that was attached, not made by the lab: it is restored, not removed.
ATTACHED = "the attachment of "
# The containers of emulated disks, in the order of their removal.
PARTS = ("array", "disk")
# How long the removal of one thing is repeated while the engine says that it is going on.
REMOVAL_SECONDS, POLL_SECONDS = 30, 0.2


def remove(project: str) -> None:
    """Remove a project's containers (with their anonymous volumes), networks, volumes and state files."""
    client = docker_engine.client()
    # A server has to release its file system first, then the array its disks; the disks themselves need no order.
    containers = sorted(labels.containers(project), key=_place)
    for _, part in groupby(containers, _place):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(remove_container, part))
    only = {"label": [labels.LABEL, f"{labels.PROJECT}={project}"]}
    for network in client.networks.list(filters=only):
        _unless_gone(network, "remove")
    for volume in client.volumes.list(filters=only):
        remove_volume(volume)
    lab_files.remove(project)


def _place(container: Container) -> int:
    return PARTS.index(part) if (part := container.labels.get(labels.PART)) in PARTS else -1


def remove_volume(volume: Volume) -> None:
    """Remove a volume; LabError if a container of another project uses it."""
    try:
        _unless_gone(volume, "remove", force=True)
    except LabError as error:
        if "in use" not in error.found:
            raise
        raise LabError(
            f"{volume.name} is in use by a container outside the lab",
            "a volume used only by the lab",
            f"docker ps --all --filter volume={volume.name}",
        ) from error


def remove_container(container: Container) -> None:
    """Remove a container with its anonymous volumes, in any state."""
    if container.labels.get(labels.PART) == "array":
        # A stopped container removes its own entries in the host's /dev.
        _unless_gone(container, "stop", timeout=5)
    _unless_gone(container, "remove", force=True, v=True)


def _unless_gone(thing: Any, act: str, **options: Any) -> None:
    """Call a method that removes or stops a thing; LabError if the engine refuses, also after REMOVAL_SECONDS."""
    refusals: list[DockerException] = []

    def is_gone() -> bool:
        try:
            getattr(thing, act)(**options)
        except NotFound:
            return True
        except DockerException as error:
            refusals.append(error)
            if not _is_passing(error):
                raise
            return False
        return True

    try:
        clock.wait_until(is_gone, f"{thing.name} to be removed", REMOVAL_SECONDS, POLL_SECONDS)
    except (DockerException, LabError) as error:
        if not refusals:
            raise
        raise LabError(
            f"the Docker engine cannot {act} {thing.name}: {refusals[-1]}",
            "an engine that removes it",
            "repeat the command; then ./lab doctor",
        ) from error


def _is_passing(error: DockerException) -> bool:
    """Return whether another removal of the same thing is going on, or the engine failed under load."""
    said = str(error)
    return "already in progress" in said or (isinstance(error, APIError) and "annot remove container" in said)


def left_behind() -> list[str]:
    """Return what killed commands of this checkout left behind: labs, and attachments of projects."""
    return [*_left_labs(), *(f"{ATTACHED}{project}" for project in _left_attached())]


def _left_labs() -> list[str]:
    """Return the projects whose process ended without finishing or removing them."""
    saved = lab_files.names(lab_files.STATE)
    found = labels.owners().items()
    return sorted(name for name, marks in found if name not in saved and all(map(owners.is_left, marks)))


def _left_attached() -> dict[str, str]:
    """Return the attached projects whose process ended without finishing or restoring them, with that owner.

    Also those whose added containers were removed by other means.
    """
    there, saved = attachments.containers(), lab_files.names(lab_files.STATE)
    return {
        project: kept.owner
        for project, kept in attachments.all_kept().items()
        if owners.is_dead(kept.owner) and (project not in there or project not in saved)
    }


def sweep() -> list[str]:
    """Remove what killed commands left behind, and restore projects that they attached; return the names."""
    stale = [project for project in _left_labs() if _removed(project)]
    for project in set(lab_files.names(lab_files.SETTINGS)) - labels.owners().keys():
        with lock.lab_if_free(project, "lab") as by:
            if not by and owners.is_dead(lab_files.settings(project).get("LAB_OWNER", "")):
                lab_files.remove(project)
    attached = _left_attached()
    for project, owner in attached.items():
        attachments.restore(project, owner)
    return [*stale, *(f"{ATTACHED}{project}" for project in attached)]


def _removed(project: str) -> bool:
    """Remove a leftover, unless another command removes or starts it now; return whether it was removed."""
    with lock.lab_if_free(project, "lab") as by:
        # Another command may have removed it and started a lab of that name since it was looked for.
        is_left = not by and project in _left_labs()
        if is_left:
            remove(project)
        return is_left
