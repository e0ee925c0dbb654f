"""Attached projects: the files that belong to one, and how it is restored.

An attachment is known by the file that `lab attach` wrote, never by what a label says: the label only finds containers.
"""

import msgspec
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.lab.attachment import LABEL, NETWORK, OWNER, Attachment, Consumer
from replication_lab.world import at_once, lab_files
from replication_lab.world.docker import compose_call, engine, labels, machine, removal
from replication_lab.world.files import read_own_as
from replication_lab.world.mysql.accounts import Account


class KeptAttachment(msgspec.Struct):
    """What an attachment keeps in a file that only its owner reads: variables and given accounts.

    `accounts` maps nodes to user and password; `owner` is the process that attaches, `engine_id` the Docker engine.
    """

    environment: dict[str, str | None] = {}
    accounts: dict[str, tuple[str, str]] = {}
    attached: Attachment | None = None
    owner: str = ""
    engine_id: str = ""


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
    """Return what was kept of a project; None if it was not attached from this checkout, in this engine."""
    found = _kept(project)
    return found if found and not machine.is_another(found.engine_id) else None


def _kept(project: str) -> KeptAttachment | None:
    found = read_own_as(lab_files.file_of(project, lab_files.ATTACHED), KeptAttachment)
    return found if found and found.attached and found.attached.compose.project == project else None


def is_elsewhere(project: str) -> bool:
    """Return whether the files of a lab or an attachment are about one in another Docker engine."""
    found = _kept(project)
    engine_id = found.engine_id if found else lab_files.settings(project).get(lab_files.ENGINE_ID, "")
    return machine.is_another(engine_id)


def refuse_elsewhere(project: str) -> None:
    """Raise LabError if the files of that name are about a lab or an attachment in another Docker engine."""
    if is_elsewhere(project):
        raise LabError(
            f"{project} is the name of a lab in another Docker engine",
            "another name, or that engine (DOCKER_HOST, docker context)",
            f"with that engine ./lab down or ./lab detach --lab {project}; if it no longer exists, "
            f"rm {lab_files.FOLDER / project}.*",
        )


def accounts(project: str) -> dict[str, Account]:
    """Return the accounts that the user gave, by node."""
    found = kept(project) or KeptAttachment()
    return {node: Account(*given, "--dsn") for node, given in found.accounts.items()}


def restore(project: str) -> None:
    """Recreate the consumers without their links, and remove all that was added; LabError if Compose cannot do it.

    Until the consumers are recreated, the Toxiproxies stay: without them a consumer does not reach its server. Nothing
    is done if the project is not attached from this checkout. The caller holds its name.
    """
    if (found := kept(project)) and found.attached:
        _restore(found.attached, found.environment)


def _restore(attached: Attachment, environment: dict[str, str | None]) -> None:
    project = attached.compose.project
    compose_call.wait_for_others(lab_files.file_of(project, lab_files.OVERRIDE))
    now = compose_call.containers(project)
    # A service that the user has removed meanwhile is not created again.
    counts = {each.service: len(now[each.service]) for each in attached.consumers if each.service in now}
    with as_lab_error(
        LabError,
        f"{', '.join(counts)} of {project} cannot be recreated without the lab",
        f"the files of the project as at `lab attach`: {', '.join(attached.compose.files)}",
        f"repair that, then ./lab detach --lab {project}; until then it still uses the lab",
    ):
        if counts:
            compose_call.up(attached.compose, counts, environment=environment)
    remove_added(project)
    lab_files.remove(project)


def remove_added(project: str) -> None:
    """Remove the containers and the network that the lab added to a project, and nothing else."""
    at_once.of_each(removal.remove_container, containers().get(project, []))
    for network in engine.client().networks.list(filters={"label": OWNER}):
        # The engine would also find a part of a name.
        if network.name == f"{project}_{NETWORK}":
            removal.unless_gone(network, "remove")


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
        hashes = {container.labels.get(compose_call.HASH) for container in mine}
        if consumer.config_hash and hashes - {consumer.config_hash}:
            found.append(
                f"{consumer.service} was recreated with other settings: its files changed while it was attached"
            )
            continue
        for container, before in zip(mine, consumer.parts, strict=False):
            called, after = container.name if len(mine) > 1 else consumer.service, compose_call.settings(container)
            differing = [part for part, digest in before.items() if after.get(part) != digest]
            found += [f"{called} differs from before in: {part}" for part in differing]
    return found
