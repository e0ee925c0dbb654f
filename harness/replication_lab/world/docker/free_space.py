"""The free space for images on the disk of an engine's machine: read there, by a container if that is another one."""

import shutil
import subprocess
from pathlib import Path

from docker.errors import ImageNotFound

from replication_lab.world.docker import engine, machine
from replication_lab.world.docker.client import EngineClient

# The image whose container reads it: its root is on the disk of the engine's data.
IMAGE = "clients"
READER = f"replication-lab/{IMAGE}"
READ = "import shutil; print(shutil.disk_usage('/').free)"


def megabytes(there: EngineClient) -> int | None:
    """Return the free space of an engine, in MB; None if it is on another machine and cannot be read there."""
    if not there.site and not machine.facts().elsewhere:
        root = Path(there.info()["DockerRootDir"])
        folder = next((path for path in (root, *root.parents) if path.exists()), Path("/"))
        return shutil.disk_usage(folder).free // 1_000_000
    try:
        there.images.get(READER)
    except ImageNotFound:
        return None
    read = _read_there(there.site).strip()
    return int(read) // 1_000_000 if read.isdigit() else None


def _read_there(site: str) -> str:
    # By Docker's own client: the SDK loses the output of a container that ends at once, on a busy machine.
    how = ("run", "--rm", "--pull", "never", "--network", "none", "--entrypoint", "python3")
    command = [*engine.command_for(site), *how, READER, "-c", READ]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
