"""Attached projects: the override that attaches one, the files that belong to it, and how it is restored."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from docker.errors import DockerException, NotFound
from docker.models.containers import Container

from replication_lab.model.attachment import LABEL, NETWORK, OWNER, Attachment, Consumer, override
from replication_lab.model.errors import LabError
from replication_lab.world import at_once, lock
from replication_lab.world.docker import compose_call, engine, labels
from replication_lab.world.files import write_whole
from replication_lab.world.mysql.accounts import Account

KEPT = ".attached"


class Kept(msgspec.Struct):
    """What an attachment keeps in a file that only its owner reads: variables and given accounts.

    `accounts` maps nodes to user and password. `attached` is the label's, for the case that the containers with it
    were removed by other means; `owner` is the process that attaches.
    """

    environment: dict[str, str | None] = {}
    accounts: dict[str, tuple[str, str]] = {}
    attached: Attachment | None = None
    owner: str = ""


def containers() -> dict[str, list[Container]]:
    """Return all containers that the lab added to projects, by project."""
    found: dict[str, list[Container]] = {}
    for container in engine.client().containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
        found.setdefault(container.labels[labels.PROJECT], []).append(container)
    return found


def of(added: Sequence[Container]) -> Attachment:
    """Return the attachment that these containers belong to, by their label."""
    return msgspec.json.decode(added[0].labels[LABEL], type=Attachment)


def owner(added: Sequence[Container]) -> str:
    """Return the process that added these containers."""
    return added[0].labels[OWNER]


def is_kept(added: Sequence[Container]) -> bool:
    """Return whether the command that added these containers came to its end, in whichever checkout."""
    attached = of(added)
    try:
        return (Path(attached.state) / f"{attached.compose.project}.json").exists()
    except PermissionError:
        # Another user's folder: what cannot be seen is not restored.
        return True


def without_containers(state: Path) -> dict[str, Kept]:
    """Return what was kept of attachments whose containers do not exist: none yet, or none any more."""
    known, found = containers(), {}
    for path in state.glob(f"*{KEPT}"):
        with suppress(OSError, msgspec.DecodeError):
            each = msgspec.json.decode(path.read_bytes(), type=Kept)
            if each.attached and path.name.removesuffix(KEPT) not in known:
                found[each.attached.compose.project] = each
    return found


def override_file(attached: Attachment) -> Path:
    return Path(attached.state) / f"{attached.compose.project}.override.yaml"


def _kept_file(attached: Attachment) -> Path:
    return Path(attached.state) / f"{attached.compose.project}{KEPT}"


def kept(attached: Attachment) -> Kept:
    """Return what was kept; nothing if the file is gone."""
    try:
        return msgspec.json.decode(_kept_file(attached).read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return Kept()


def accounts(attached: Attachment) -> dict[str, Account]:
    """Return the accounts that the user gave, by node."""
    return {node: Account(*found, "--dsn") for node, found in kept(attached).accounts.items()}


def write(attached: Attachment, owner: str, given: Kept, linked: dict[str, list[str]]) -> Path:
    """Write the override file and what is kept; return the override file."""
    given.attached, given.owner = attached, owner
    write_whole(_kept_file(attached), msgspec.json.encode(given))
    write_whole(override_file(attached), override(attached, owner, linked).encode())
    return override_file(attached)


def start(attached: Attachment) -> None:
    """Add the Toxiproxies, then recreate the consumers with their links."""
    path = override_file(attached)
    compose_call.up(attached.compose, dict.fromkeys(attached.added, 1), path)
    compose_call.up(attached.compose, {each.service: each.count for each in attached.consumers}, path)


def restore(attached: Attachment) -> None:
    """Recreate the consumers without their links, and remove all that was added; LabError if Compose cannot do it.

    Until the consumers are recreated, the Toxiproxies stay: without them a consumer does not reach its server.
    """
    # While `lab detach` ends, another command may take the project for a leftover. It must not restore it once more:
    # the variables that were kept are deleted by then, and the consumers would be recreated without them.
    with lock.held(f"attached-{attached.compose.project}"):
        if _kept_file(attached).exists() or attached.compose.project in containers():
            _restore(attached)


def _restore(attached: Attachment) -> None:
    path, project = override_file(attached), attached.compose.project
    compose_call.wait_for_others(path)
    now = compose_call.containers(project)
    # A service that the user has removed meanwhile is not created again.
    counts = {each.service: len(now[each.service]) for each in attached.consumers if each.service in now}
    if counts:
        _recreate(attached, counts)
    remove_added(project)
    for each in Path(attached.state).glob(f"{project}.*"):
        each.unlink(missing_ok=True)


def _recreate(attached: Attachment, counts: dict[str, int]) -> None:
    environment = kept(attached).environment if _kept_file(attached).exists() else None
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
    at_once.of_each(_remove, containers().get(project, []))
    for network in engine.client().networks.list(names=[f"{project}_{NETWORK}"]):
        network.remove()


def _remove(container: Container) -> None:
    try:
        container.remove(force=True, v=True)
    except NotFound:
        pass
    except DockerException as error:
        if "already in progress" not in str(error):
            said = f"the Docker engine cannot remove {container.name}: {error}"
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
