"""A container of any image in a lab: it is in the lab's network, and is removed with the lab."""

from collections.abc import Mapping

from replication_lab.world.docker import images, labels
from replication_lab.world.docker.client import refusal_told
from replication_lab.world.docker.containers import engine_of
from replication_lab.world.docker.service import Service

# It only has to stay up: the load is run in it by `docker exec`.
WAIT = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
# How volumes are mounted, by their names, as Docker's client takes it.
Volumes = Mapping[str, dict[str, str]]


def start(like: Service, name: str, image: str, volumes: Volumes) -> None:
    """Start a container with the network, CPUs, labels and dropped privileges of a service that is there.

    Raise LabError if it does not stay up.
    """
    images.have(image)
    model = like.container
    model.reload()
    with refusal_told(
        f"image {image} cannot run a load",
        "an image with sh, sleep and timeout",
        f"docker run --rm --entrypoint sh {image} -c 'command -v sleep timeout'",
    ):
        made = engine_of(model).containers.create(
            image,
            entrypoint=["sh", "-c", WAIT],
            command=[],
            name=f"{like.project}-{name}",
            labels=labels.of_beside(like.project, model, name),
            network=next(iter(model.attrs["NetworkSettings"]["Networks"])),
            cpuset_cpus=model.attrs["HostConfig"]["CpusetCpus"],
            volumes=dict(volumes),
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
        )
        made.start()
    like.containers.refresh()
