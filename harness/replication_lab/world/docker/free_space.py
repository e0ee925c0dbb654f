"""The free space for images on the disk of an engine's machine: read there, by a container if that is another one."""

import shutil
from pathlib import Path

from docker.errors import ContainerError, ImageNotFound

from replication_lab.world.docker import machine
from replication_lab.world.docker.client import EngineClient

# The image whose container reads it: its root is on the disk of the engine's data.
IMAGE = "clients"
READER = f"replication-lab/{IMAGE}"
READ = "import shutil; print(shutil.disk_usage('/').free)"


def megabytes(there: EngineClient) -> int | None:
    """Return the free space of an engine, in MB; None if it is on another machine and lacks the image that reads it."""
    if not there.site and not machine.facts().elsewhere:
        root = Path(there.info()["DockerRootDir"])
        folder = next((path for path in (root, *root.parents) if path.exists()), Path("/"))
        return shutil.disk_usage(folder).free // 1_000_000
    try:
        # The SDK's `run` would pull it.
        there.images.get(READER)
        read = there.containers.run(READER, ["-c", READ], entrypoint="python3", network_mode="none", remove=True)
    except (ImageNotFound, ContainerError):
        return None
    return int(read) // 1_000_000
