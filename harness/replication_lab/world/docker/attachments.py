"""Attached projects: the override that attaches one, the files that belong to it, and how it is restored.

An attachment is known by the file that `lab attach` wrote, never by what a label says: the label only finds containers.
"""

from pathlib import Path
from typing import Any

import msgspec
from docker.errors import DockerException, NotFound
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import LABEL, NETWORK, OWNER, Attachment, Consumer, override
from replication_lab.world import at_once, lab_files, lock
from replication_lab.world.docker import compose_call, engine, labels
from replication_lab.world.files import read_own, write_whole
from replication_lab.world.mysql.accounts import Account


class KeptAttachment(msgspec.Struct):
    """What an attachment keeps in a file that only its owner reads: variables and given accounts.

    `accounts` maps nodes to user and password; `owner` is the process that attaches.
    """

    environment: dict[str, str | None] = {}
    accounts: dict[str, tuple[str, str]] = {}
    attached: Attachment | None = None
    owner: str = ""


def containers() -> dict[str, list[Container]]:
    """Return all containers that the lab added to projects, by project."""
    found: dict[str, list[Container]] = {}
    for container in labels.listed(LABEL):
        found.setdefault(labels.project_of(container.labels), []).append(container)
    return found


def all_kept() -> dict[str, KeptAttachment]:
    """Return what was kept of each project that was attached from this checkout."""
    found = {project: kept(project) for project in lab_files.names(lab_files.ATTACHED)}
    return {project: each for project, each in found.items() if each}


def kept(project: str) -> KeptAttachment | None:
    """Return what was kept of a project; None if it was not attached from this checkout."""
    try:
        found = msgspec.json.decode(read_own(_kept_file(project)) or b"", type=KeptAttachment)
    except msgspec.DecodeError:
        return None
    return found if found.attached and found.attached.compose.project == project else None


def override_file(project: str) -> Path:
    return lab_files.file_of(project, ".override.yaml")


def _kept_file(project: str) -> Path:
    return lab_files.file_of(project, lab_files.ATTACHED)


def accounts(project: str) -> dict[str, Account]:
    """Return the accounts that the user gave, by node."""
    found = kept(project) or KeptAttachment()
    return {node: Account(*given, "--dsn") for node, given in found.accounts.items()}


def write(attached: Attachment, owner: str, given: KeptAttachment, linked: dict[str, list[str]]) -> Path:
    """Write the override file and what is kept; return the override file."""
    given.attached, given.owner = attached, owner
    project = attached.compose.project
    write_whole(_kept_file(project), msgspec.json.encode(given))
    write_whole(override_file(project), override(attached, owner, linked).encode())
    return override_file(project)


def start(attached: Attachment) -> None:
    """Add the Toxiproxies, then recreate the consumers with their links."""
    path = override_file(attached.compose.project)
    compose_call.up(attached.compose, dict.fromkeys(attached.added, 1), path)
    compose_call.up(attached.compose, {each.service: each.count for each in attached.consumers}, path)


def restore(project: str, owner: str = "") -> None:
    """Recreate the consumers without their links, and remove all that was added; LabError if Compose cannot do it.

    Until the consumers are recreated, the Toxiproxies stay: without them a consumer does not reach its server. Nothing
    is done if the project is not attached from this checkout, or by another process than this `owner`.
    """
    # While `lab detach` ends, another command may take the project for a leftover. It must not restore it once more:
    # the variables that were kept are deleted by then, and the consumers would be recreated without them.
    with lock.held(f"attached-{project}"):
        if (found := kept(project)) and found.attached and owner in ("", found.owner):
            _restore(found.attached, found.environment)


def _restore(attached: Attachment, environment: dict[str, str | None]) -> None:
    project = attached.compose.project
    compose_call.wait_for_others(override_file(project))
    now = compose_call.containers(project)
    # A service that the user has removed meanwhile is not created again.
    counts = {each.service: len(now[each.service]) for each in attached.consumers if each.service in now}
    if counts:
        _recreate(attached, counts, environment)
    remove_added(project)
    lab_files.remove(project)


def _recreate(attached: Attachment, counts: dict[str, int], environment: dict[str, str | None]) -> None:
    try:
        compose_call.up(attached.compose, counts, environment=environment)
    except LabError as error:
        raise LabError(
            f"{', '.join(counts)} of {attached.compose.project} cannot be recreated without the lab: {error.found}",
            f"the files of the project as at `lab attach`: {', '.join(attached.compose.files)}",
            f"repair that, then ./lab detach --lab {attached.compose.project}; until then it still uses the lab",
        ) from error


def remove_added(project: str) -> None:
    """Remove the containers and the network that the lab added to a project, and nothing else."""
    at_once.of_each(lambda one: _remove(one, force=True, v=True), containers().get(project, []))
    for network in engine.client().networks.list(filters={"label": OWNER}):
        # The engine would also find a part of a name.
        if network.name == f"{project}_{NETWORK}":
            _remove(network)


def _remove(thing: Any, **options: Any) -> None:
    try:
        thing.remove(**options)
    except NotFound:
        pass
    except DockerException as error:
        if "already in progress" not in str(error):
            said = f"the Docker engine cannot remove {thing.name}: {error}"
            raise LabError(said, "an engine that removes it", "repeat the command; then ./lab doctor") from error


def unnamed_of(attached: Attachment, consumer: Consumer) -> list[str]:
    """Return the volumes without a name of the project's that a consumer still has."""
    containers = compose_call.containers(attached.compose.project).get(consumer.service, [])
    used = {mount.get("Name", "") for one in containers for mount in one.attrs.get("Mounts", [])}
    return sorted(used & set(consumer.unnamed))


def differences(attached: Attachment) -> list[str]:
    """Return how the consumers' containers differ from those before the attachment, in words; empty if they do not."""
    now, found = compose_call.containers(attached.compose.project), []
    for consumer in attached.consumers:
        mine = now.get(consumer.service, [])
        if len(mine) != consumer.count:
            found.append(f"{consumer.service} has {len(mine)} containers; it had {consumer.count} before")
        for container in mine[:1]:
            if container.labels.get(compose_call.HASH) != consumer.config_hash:
                found.append(
                    f"{consumer.service} was recreated with other settings: its files changed while it was attached"
                )
                continue
            after = compose_call.settings(container)
            found += [
                f"{consumer.service} differs from before in: {part}"
                for part, digest in consumer.settings.items()
                if after.get(part) != digest
            ]
    return found
