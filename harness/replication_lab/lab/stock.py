"""The stock of images: build them ahead, publish them in a registry, write archives of them."""

from collections.abc import Sequence
from pathlib import Path

from replication_lab.lab import up
from replication_lab.world import catalogue, host
from replication_lab.world.docker import archives, images, registry, servers
from replication_lab.world.docker import engine as docker_engine


def needed(engines: Sequence[str], topologies: Sequence[str]) -> list[str]:
    """Return the images of these engines and topologies that are built here; by default those of mariadb.

    The engine `all` stands for every engine that can be built on this processor. Without a named engine each topology
    needs its default one. Raise LabError for unknown names.
    """
    found: list[str] = []
    if "all" in engines:
        own = host.processor()
        engines = [
            name
            for name, each in catalogue.engines().items()
            if not each.image and (not each.processors or own in each.processors)
        ]
    for name in topologies:
        topology = catalogue.topology(name)
        for each in engines or [catalogue.default_engine(name)]:
            found += up.image_names(each, True, topology, topology.storage)
    for each in engines or ([] if topologies else ["mariadb"]):
        servers.named(each)
        found += up.image_names(each, load=True)
    return [*dict.fromkeys(found)]


def build(wanted: Sequence[str], prefix: str) -> list[str]:
    """Build what is missing, and push it if there is a prefix; return the images' names, in the registry or here."""
    if prefix:
        prefix = registry.checked(prefix, "--push")
    docker_engine.ensure()
    images.ensure(wanted)
    if not prefix:
        return [images.PREFIX + name for name in wanted]
    return [registry.publish(docker_engine.client().images.get(images.PREFIX + name), name, prefix) for name in wanted]


def save(folder: Path, wanted: Sequence[str]) -> archives.Saved:
    """Write an archive of each image, and a list of them with their digests."""
    docker_engine.ensure()
    images.ensure(wanted)
    return archives.save(folder, wanted)
