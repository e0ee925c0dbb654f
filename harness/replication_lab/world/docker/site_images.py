"""Images for other sites: saved here and loaded there over the site's own connection, once for each image."""

import subprocess
import sys
from collections.abc import Iterable

from docker.errors import ImageNotFound

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.site import DRBD, GALERA
from replication_lab.model.lab.spread_load import LOAD
from replication_lab.world import lock
from replication_lab.world.docker import engine, images, machine, servers, sites
from replication_lab.world.docker.bake_file import RECIPE
from replication_lab.world.docker.client import EngineClient

# What nodes of a kind have beside them, or run in.
BESIDE = {GALERA: ["sidecar"], DRBD: ["vm", "spindle"]}


def bring_all(asked: LabRequest) -> None:
    """Bring to other sites the images of a lab's nodes, of its own services, and of the clients that measure there."""
    kind = asked.topology.replication
    # The server of a virtual machine is in the machine's own image.
    nodes = servers.of_nodes(asked.topology, asked.engine).values() if kind != DRBD else ()
    own = ["toxiproxy", machine.READER_NAME, *(["load"] if asked.load else []), *BESIDE.get(kind, ())]
    names = list(dict.fromkeys([*map(servers.image_of, nodes), *(images.PREFIX + each for each in own)]))
    for endpoint in sorted({site.endpoint for site in asked.sites.values()} - {""}):
        images.ensure([machine.READER_NAME])
        bring(endpoint, names)
    # Also those by which the machine there is read.
    for endpoint in sorted({*(asked.spread.endpoints if asked.spread else ())} - {""}):
        images.ensure([machine.READER_NAME])
        bring(endpoint, [images.PREFIX + each for each in ("toxiproxy", machine.READER_NAME, LOAD)])


def bring(site: str, names: Iterable[str]) -> None:
    """Load the images of these names that a site lacks, from the command's engine; nothing for that engine itself."""
    if not site:
        return
    there = sites.client(site)
    if all(_has(there, name) for name in names):
        return
    with lock.held("images"):
        if wanted := [name for name in names if not _has(there, name)]:
            _refuse_another_processor(site, there)
            # The image that reads the free space there goes first.
            reader = [name for name in wanted if name == machine.READER]
            for part in filter(None, (reader, [name for name in wanted if name not in reader])):
                _refuse_full(site, there, part)
                _copy(site, part)


def _has(there: EngineClient, name: str) -> bool:
    """Return whether an engine has the same image of a name as the command's, by its ID or by its recipe."""
    own = engine.client().images.get(name)
    try:
        found = there.images.get(name)
    except ImageNotFound:
        return False
    # An engine that keeps images in containerd's store gives them other IDs.
    return found.id == own.id or (RECIPE in own.labels and found.labels.get(RECIPE) == own.labels[RECIPE])


def _refuse_another_processor(site: str, there: EngineClient) -> None:
    processor = str(there.version().get("Arch", ""))
    if processor != engine.processor():
        raise LabError(
            f"the site {site} has the processor {processor}, and the images here are for {engine.processor()}",
            "sites of one processor",
            "a command on a machine of that processor, with DOCKER_HOST",
        )


def _refuse_full(site: str, there: EngineClient, names: list[str]) -> None:
    needed = sum(engine.client().images.get(name).attrs["Size"] for name in names) // 1_000_000
    free = machine.free_megabytes(there)
    if free is not None and free < needed:
        raise LabError(
            f"{free} MB free on the disk of {there.info()['DockerRootDir']} at the site {site}",
            f"{needed} MB to load {', '.join(names)}",
            f"DOCKER_HOST={site} docker system prune",
        )


def _copy(site: str, names: list[str]) -> None:
    print(f"loading {', '.join(names)} at {site} (once)", file=sys.stderr, flush=True)
    with subprocess.Popen(["docker", "save", *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as saving:
        loaded = subprocess.run(
            [*engine.command_for(site), "load"], stdin=saving.stdout, capture_output=True, text=True, check=False
        )
        if loaded.returncode:
            # It would wait for a reader for ever.
            saving.kill()
    if loaded.returncode or saving.returncode:
        said = loaded.stderr.strip().rpartition("\n")[2]
        raise LabError(
            f"{', '.join(names)} cannot be loaded at the site {site}: {said or 'docker save failed'}",
            "an engine there with enough free disk space",
            f"docker save {' '.join(names)} | DOCKER_HOST={site} docker load",
        )
