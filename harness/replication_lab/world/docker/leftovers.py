"""Removal of labs, to the last volume, and of leftovers of killed processes; the owner of each lab."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import psutil
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.models.volumes import Volume

from replication_lab.model.attachment import Attachment
from replication_lab.model.errors import LabError
from replication_lab.world import clock, places
from replication_lab.world.docker import attachments, labels
from replication_lab.world.docker import engine as docker_engine

# How a project is named that was attached, not made by the lab: it is restored, not removed.
ATTACHED = "the attachment of "
STATE = places.KEPT / "labs"
# Seconds; a step of the system clock changes a process's start time by less.
STEP_SECONDS = 60
# How long the removal of one thing is repeated while the engine says that it is going on.
REMOVAL_SECONDS, POLL_SECONDS = 30, 0.2


def remove(project: str) -> None:
    """Remove a project's containers (with their anonymous volumes), networks, volumes and state files."""
    client = docker_engine.client()
    # A server has to release its file system first, then the array its disks; the disks themselves need no order.
    containers = labels.containers(project)
    for part in (None, "array", "disk"):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(remove_container, [one for one in containers if one.labels.get(labels.PART) == part]))
    only = {"label": [labels.LABEL, f"{labels.PROJECT}={project}"]}
    for network in client.networks.list(filters=only):
        _unless_gone(network, "remove")
    for volume in client.volumes.list(filters=only):
        remove_volume(volume)
    for kept in STATE.glob(f"{project}.*"):
        kept.unlink(missing_ok=True)


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


def owner() -> str:
    """Return what marks everything of a lab: this process (PID and start time, never shared), and the folder STATE."""
    return f"{os.getpid()}-{psutil.Process().create_time():.2f}@{quote(str(STATE))}"


def is_alive(mark: str) -> bool:
    pid, _, started = mark.partition("@")[0].partition("-")
    try:
        # A stepped clock changes every start time. With the same number and nearly the same start it is this process.
        return abs(psutil.Process(int(pid)).create_time() - float(started)) < STEP_SECONDS
    except (psutil.Error, ValueError):
        return False


def left_behind() -> list[str]:
    """Return what killed processes left behind, from any checkout: labs, and attachments of projects."""
    return [*_left_labs(), *(f"{ATTACHED}{project}" for project in _left_attached())]


def _left_labs() -> list[str]:
    """Return the projects whose process ended without finishing or removing them, from any checkout."""
    client = docker_engine.client()
    marks, kept = {}, set()
    for container in labels.containers():
        project = container.labels[labels.PROJECT]
        marks[project] = container.labels[labels.LABEL]
        if is_saved(container, project):
            kept.add(project)
    only = {"label": labels.LABEL}
    for thing in (*client.networks.list(filters=only), *client.volumes.list(filters=only)):
        its_own = thing.attrs.get("Labels") or {}
        marks.setdefault(its_own.get(labels.PROJECT, ""), its_own[labels.LABEL])
    return sorted(
        project
        for project, mark in marks.items()
        if project and project not in kept and mark != "compose" and not is_alive(mark)
    )


def is_saved(container: Container, project: str) -> bool:
    """Return whether a lab is saved: in STATE, or where another checkout or another user saves its own labs."""
    named = container.labels[labels.LABEL].partition("@")[2]
    folder = Path(unquote(named)) if named else Path(container.labels[labels.WORKING_DIR]).parent / "runs" / "labs"
    try:
        return (folder / f"{project}.json").exists()
    except PermissionError:
        # Another user's folder: what cannot be seen is not removed.
        return True


def _left_attached() -> dict[str, Attachment]:
    """Return the attached projects whose process ended without finishing or restoring them, from any checkout.

    Also those of this checkout whose added containers were removed by other means.
    """
    left = {
        project: attachments.of(added)
        for project, added in attachments.containers().items()
        if not attachments.is_kept(added) and not is_alive(attachments.owner(added))
    }
    return left | {project: kept.attached for project, kept in without_containers().items() if kept.attached}


def without_containers() -> dict[str, attachments.Kept]:
    """Return what was kept of attachments whose containers were removed by other means, of this checkout."""
    found = attachments.without_containers(STATE)
    return {project: kept for project, kept in found.items() if not is_alive(kept.owner)}


def sweep() -> list[str]:
    """Remove what killed processes left behind, and restore projects that they attached; return the names."""
    stale = _left_labs()
    for project in stale:
        remove(project)
    known = {container.labels.get(labels.PROJECT) for container in labels.containers()}
    orphans = [path for path in STATE.glob("*.env") if path.stem not in known]
    for path in orphans:
        if not is_alive(_owner_in(path)):
            for kept in STATE.glob(f"{path.stem}.*"):
                kept.unlink(missing_ok=True)
    attached = _left_attached()
    for each in attached.values():
        attachments.restore(each)
    return [*stale, *(f"{ATTACHED}{project}" for project in attached)]


def _owner_in(env_file: Path) -> str:
    lines: Iterable[str] = env_file.read_text().splitlines() if env_file.exists() else ()
    return next((line.removeprefix("LAB_OWNER=") for line in lines if line.startswith("LAB_OWNER=")), "")
