"""The labels that mark everything of a lab, to find it again; some are Compose's own.

A label is a name and never a path or an instruction: an image can bring labels of any content with it.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import LABEL as ATTACHED
from replication_lab.model.lab.attachment import OWNER as ATTACHED_BY
from replication_lab.model.lab.lab_request import NAME
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import sites
from replication_lab.world.docker.client import EngineClient

LABEL, ENGINE_LABEL = "replication-lab", "replication-lab.engine"
# The name of the endpoint that a container is.
ENDPOINT_LABEL = "replication-lab.endpoint"
# The name of the failover manager that a container belongs to.
MANAGER_LABEL = "replication-lab.manager"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
# Compose gives it to containers; its images have only the name of the project.
HASH = "com.docker.compose.config-hash"
PART = "replication-lab.part"
CONFIG_FILES = "com.docker.compose.project.config_files"
WORKING_DIR = "com.docker.compose.project.working_dir"


def states(project: str) -> dict[str, str]:
    """Return the state of each container of a project by service, by one request: running, paused, exited and so on.

    LabError if the engine does not answer.
    """
    return {each["Labels"].get(SERVICE, ""): each["State"] for each in _listed(project)}


def health(project: str) -> dict[str, str]:
    """Return the health of each running container that has a health check, and the state of the others, by service.

    Health is healthy, unhealthy or starting. LabError if the engine does not answer.
    """
    return {each["Labels"].get(SERVICE, ""): _health(each) for each in _listed(project)}


def _health(listed: dict[str, Any]) -> str:
    # "Up 3 seconds (health: starting)", "Up 5 seconds (healthy)", "Up 5 seconds"
    found = re.search(r"\((?:health: )?(starting|healthy|unhealthy)\)$", listed["Status"])
    return found[1] if found else str(listed["State"])


def _listed(project: str) -> list[dict[str, Any]]:
    only = {"label": [LABEL, f"{PROJECT}={project}"]}
    return [each for client in sites.clients(project) for each in client.api.containers(all=True, filters=only)]


def containers(project: str | None = None) -> list[Container]:
    """Return the containers of one project, or of all labs, running or not."""
    marks = (LABEL, f"{PROJECT}={project}" if project else PROJECT)
    return [one for client in sites.clients(project or "") for one in listed(*marks, client=client)]


def listed(mark: str, *marks: str, client: EngineClient | None = None) -> list[Container]:
    """Return the containers with these labels and a valid project, unless the first label comes from their image.

    They are those of one engine, by default the command's own.
    """
    client = client or docker_engine.client()
    found = [one for one in _with(client, mark, *marks) if project_of(one.labels)]
    images = client.api.images(all=True, filters={"label": mark}) if found else []
    given = {each["Id"]: (each["Labels"] or {}).get(mark) for each in images}
    return [one for one in found if one.labels.get(mark) != given.get(one.attrs.get("Image"))]


def _with(client: EngineClient, *marks: str) -> list[Container]:
    return client.containers.list(all=True, filters={"label": list(marks)}, ignore_removed=True)


def of_beside(project: str, model: Container, service: str) -> dict[str, str]:
    """Return the labels of another service of a project: the owner of one of its containers, and none of its image."""
    kept = (LABEL,) if LABEL in model.labels else (ATTACHED, ATTACHED_BY, HASH)
    return {PROJECT: project, SERVICE: service, **{key: model.labels.get(key, "") for key in kept}}


def refuse_taken(name: str, endpoints: Iterable[str] = ("",)) -> None:
    """Refuse a name that is in use on one of these engines: by a project that is not a lab, or by volumes."""
    for client in map(sites.client, endpoints):
        if there := sorted(str(one.name) for one in _with(client, f"{PROJECT}={name}")):
            raise LabError(
                f"{name} is a Compose project that is not a lab of yours: {', '.join(there[:5])}",
                "a name that no other project has",
                f"another --lab; to see it: docker compose --project-name {name} ps --all",
            )
        only = {"label": [LABEL, f"{PROJECT}={name}"]}
        # They have another password.
        if old := [volume.name for volume in client.volumes.list(filters=only)]:
            raise LabError(
                f"data of an earlier {name} exists: {', '.join(old)}",
                "no data of an earlier lab",
                f"docker volume rm {' '.join(old)}",
            )


def strangers() -> list[str]:
    """Return the names of containers with the lab's label but no lab: it is their image's, or they have no project."""
    known = {one.id for mark in (LABEL, ATTACHED) for one in listed(mark)}
    client = docker_engine.client()
    return sorted({str(one.name) for mark in (LABEL, ATTACHED) for one in _with(client, mark) if one.id not in known})


def project_of(labels: Mapping[str, str] | None) -> str:
    """Return the project that labels name; an empty string if there is none of a valid name."""
    name = (labels or {}).get(PROJECT, "")
    return name if NAME.fullmatch(name) else ""


def owners() -> dict[str, set[str]]:
    """Return the owners of all that has a lab's label, by project: of containers, networks and volumes."""
    found: dict[str, set[str]] = {}
    every = [one.labels for one in containers()]
    for client in sites.clients():
        only = {"label": LABEL}
        things = (*client.networks.list(filters=only), *client.volumes.list(filters=only))
        every += [thing.attrs.get("Labels") or {} for thing in things]
    for each in every:
        if name := project_of(each):
            found.setdefault(name, set()).add(each.get(LABEL, ""))
    return found


def compose_files() -> list[str]:
    """Return the labels in which Compose names the files of containers with a lab's label, whatever they are."""
    return [one.labels.get(CONFIG_FILES, "") for client in sites.clients() for one in _with(client, LABEL)]
