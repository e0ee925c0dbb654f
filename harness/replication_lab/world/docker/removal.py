"""The removal of single containers, networks and volumes: repeated while the engine says that it is going on."""

from typing import Any

from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container
from docker.models.volumes import Volume

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker import labels
from replication_lab.world.docker.client import EngineClient

REMOVAL_SECONDS, POLL_SECONDS = 30, 0.1


class InUse(LabError):
    """A volume that cannot be removed, because a container of its own project uses it."""


def remove_volume(volume: Volume) -> None:
    """Remove a volume; InUse if a container of its own project uses it, LabError if another one does."""
    try:
        unless_gone(volume, "remove", force=True)
    except LabError as error:
        if "in use" not in error.found:
            raise
        project = (volume.attrs.get("Labels") or {}).get(labels.PROJECT)
        client: EngineClient = volume.client  # type: ignore[assignment]  # the one that listed it
        users = client.containers.list(all=True, filters={"volume": volume.name}, ignore_removed=True)
        # The engine takes the volumes of a container before it lists the container.
        is_own = all(project and user.labels.get(labels.PROJECT) == project for user in users)
        kind, whose, expected = (
            (InUse, "of the lab", "a volume that no container uses")
            if is_own
            else (LabError, "outside the lab", "a volume used only by the lab")
        )
        raise kind(
            f"{volume.name} is in use by a container {whose}",
            expected,
            f"docker ps --all --filter volume={volume.name}",
        ) from error


def remove_container(container: Container) -> None:
    """Remove a container with its anonymous volumes, in any state."""
    if container.labels.get(labels.PART) == "array":
        # A stopped container removes its own entries in the host's /dev.
        unless_gone(container, "stop", timeout=5)
    unless_gone(container, "remove", force=True, v=True)


def unless_gone(thing: Any, act: str, **options: Any) -> None:
    """Call a method that removes or stops a thing; LabError if the engine refuses, also after REMOVAL_SECONDS."""
    refusals: list[DockerException] = []

    def is_gone() -> bool:
        try:
            getattr(thing, act)(**options)
        except NotFound:
            return True
        except DockerException as error:
            # A swarm has removed its network, and answers like this before it forgets it.
            if str(error).rstrip('")').endswith(" not found"):
                return True
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
    """Return whether another removal of the same thing is going on, or the engine failed under load.

    A swarm's network is in use for a moment after its last container is gone.
    """
    said = str(error)
    if "already in progress" in said or "in use by task" in said:
        return True
    return isinstance(error, APIError) and "annot remove container" in said
