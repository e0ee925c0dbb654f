"""The labels that mark everything of a lab, to find it again; some are Compose's own."""

import re
from typing import Any

from docker.models.containers import Container

from replication_lab.world.docker import engine as docker_engine

LABEL, ENGINE_LABEL = "replication-lab", "replication-lab.engine"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
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
    return docker_engine.client().api.containers(all=True, filters=only)


def containers(project: str | None = None) -> list[Container]:
    """Return the containers of one project, or of all labs, running or not."""
    marks = [LABEL, f"{PROJECT}={project}" if project else PROJECT]
    return docker_engine.client().containers.list(all=True, filters={"label": marks}, ignore_removed=True)


def compose_files() -> set[str]:
    """Return the Compose files that the containers of all labs were started from."""
    return {file for one in containers() for file in one.labels.get(CONFIG_FILES, "").split(",")}
