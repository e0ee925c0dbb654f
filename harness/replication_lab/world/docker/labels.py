"""The labels that mark everything of a lab, to find it again; some are Compose's own."""

from docker.models.containers import Container

from replication_lab.world.docker import engine as docker_engine

LABEL, ENGINE_LABEL = "replication-lab", "replication-lab.engine"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
PART = "replication-lab.part"
CONFIG_FILES = "com.docker.compose.project.config_files"
WORKING_DIR = "com.docker.compose.project.working_dir"


def containers(project: str | None = None) -> list[Container]:
    """Return the containers of one project, or of all labs, running or not."""
    marks = [LABEL, f"{PROJECT}={project}" if project else PROJECT]
    return docker_engine.client().containers.list(all=True, filters={"label": marks}, ignore_removed=True)
