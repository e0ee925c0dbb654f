"""The lab's images: find those that are missing or out of date, and build only those."""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import DockerException, ImageNotFound
from rich.markup import escape
from rich.status import Status

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.world import at_once, catalogue, lock
from replication_lab.world.console import Console
from replication_lab.world.docker import bake_file, base_image, engine, machine, registry
from replication_lab.world.docker.bake_file import RECIPE
from replication_lab.world.docker.base_image import last_lines
from replication_lab.world.docker.client import refusal_told

PREFIX = "replication-lab/"
CA_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def ensure(names: Iterable[str]) -> None:
    """Get those of these images that are missing or older than their recipe: pull them from a registry, or build them.

    The base image is made if something is built and it is missing.
    """
    names = list(names)
    if not all(map(is_current, names)):
        # Two commands that need the same image build it once: the second one waits for the lock, then finds the image.
        with lock.held("images"):
            missing = [name for name in names if not is_current(name)]
            # All at once: a small image does not wait for a large one.
            fetched = at_once.of_each(_is_fetched, missing) if registry.prefix() else [False] * len(missing)
            _build([name for name, there in zip(missing, fetched, strict=True) if not there])


def _is_fetched(name: str) -> bool:
    """Take an image from the user's registry; return False, with a line that says why, if it has to be built."""
    found = registry.fetched(name)
    if isinstance(found, str):
        print(f"{found}; building {name} here", file=sys.stderr, flush=True)
        return False
    found.tag(PREFIX + name)
    return True


def _build(wanted: list[str]) -> None:
    if not wanted:
        return
    needs_base = not is_present(base_image.NAME)
    _check_space([*(["base"] if needs_base else []), *wanted])
    if needs_base:
        base_image.make()
    print(f"building {', '.join(wanted)} (once; at most a few minutes)", file=sys.stderr, flush=True)
    _bake(wanted)


def is_present(image: str) -> bool:
    with refusal_told(f"image {image[:60]}", "a name of an image", "docker images"):
        try:
            engine.client().images.get(image)
        except ImageNotFound:
            return False
    return True


def processor(image: str) -> str:
    """Return the processor that an image is for, as Docker names it; an empty string if the image is not present."""
    return str(_attributes(image).get("Architecture", ""))


def identifier(image: str) -> str:
    """Return the ID of the image that has a name now; an empty string if none has."""
    return str(_attributes(image).get("Id", ""))


def volumes(image: str) -> list[str]:
    """Return the folders that an image declares as volumes."""
    return list((_attributes(image).get("Config") or {}).get("Volumes") or {})


def _attributes(image: str) -> dict[str, Any]:
    """Return what the engine knows of an image; nothing if the image is not present."""
    try:
        return engine.client().images.get(image).attrs
    except ImageNotFound:
        return {}


def have(image: str) -> None:
    """Pull an image that is not present; LabError if that is impossible."""
    if is_present(image):
        return
    print(f"pulling {image} (once)", file=sys.stderr, flush=True)
    with refusal_told(
        f"image {image} is not on this machine, and pulling it failed",
        "an image of that name here, or a registry that answers",
        f"docker pull {image}; without a registry: docker load -i FILE",
        DockerException,
    ):
        engine.client().images.pull(image)


def said_by(image: str, script: str, shell: str = "sh", *, stdout: bool = True, **options: Any) -> tuple[int, str]:
    """Run a script in a container of its own, by default without a network; return its exit status and what it printed.

    Without `stdout` only what it wrote to standard error. `options` are those of the SDK.
    """
    powers = {"network_disabled": True, "cap_drop": ["ALL"], **options}
    with as_lab_error(DockerException, f"`{script}` failed in {image}"):
        container = engine.client().containers.create(image, ["-c", script], entrypoint=shell, **powers)
        try:
            container.start()
            return container.wait()["StatusCode"], container.logs(stdout=stdout).decode(errors="replace")
        finally:
            # Also the volumes that the image declares: the client library's own removal leaves them.
            container.remove(force=True, v=True)


def is_current(name: str) -> bool:
    """Return whether the image exists, was built from its current recipe, and is for the engine's processor."""
    try:
        image = engine.client().images.get(PREFIX + name)
    except ImageNotFound:
        return False
    return fits(name, image.attrs.get("Architecture", engine.processor()), image.labels)


def fits(name: str, processor_: str, labels: Mapping[str, str]) -> bool:
    """Return whether an image is for the engine's processor, and its label says that it has the current recipe."""
    return processor_ == engine.processor() and labels.get(RECIPE) == bake_file.digest(name)


def published(name: str) -> list[str]:
    """Return the image's names with digests in registries that it was pulled from; empty if it was built here."""
    return list(_attributes(name).get("RepoDigests", []))


def state(name: str) -> str:
    """Return the image's state in words: built, built from an older recipe, or not built."""
    if not is_present(PREFIX + name):
        return "not built; built when first needed"
    return "built" if is_current(name) else "built from an older recipe; rebuilt when next needed"


@cache
def megabytes() -> dict[str, int]:
    """Return the megabytes needed to build each image (images.yaml, engines.yaml)."""
    own = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, int])
    return own | {name: each.megabytes for name, each in catalogue.engines().items()}


def _check_space(names: Iterable[str]) -> None:
    needed = sum(megabytes()[name] for name in names)
    free = machine.free_megabytes(engine.client())
    if free is None:
        elsewhere = machine.facts().elsewhere
        print(f"the free space for images is not checked: {elsewhere}", file=sys.stderr, flush=True)
        return
    if free < needed:
        raise LabError(
            f"{free} MB free on the disk of {engine.client().info()['DockerRootDir']}",
            f"{needed} MB to build {', '.join(names)}",
            "./lab clean --images, or docker system prune",
        )


def _bake(names: list[str]) -> None:
    command = ["docker", "buildx", "bake", "--progress", "plain", "-f", str(bake_file.path())]
    for bundle in CA_BUNDLES:
        if Path(bundle).exists():
            command += ["--set", f"*.secrets=id=ca,src={bundle}"]
            break
    # Bake also builds and tags the images under this one; without labels here they would lose theirs.
    for each in sorted({each for name in names for each in bake_file.targets_of(name)}):
        command += ["--set", f"{each}.labels.{RECIPE}={bake_file.digest(each)}"]
    said: list[str] = []
    with (
        Status(f"building {', '.join(names)}", console=Console(stderr=True)) as status,
        subprocess.Popen(
            [*command, *map(bake_file.target, names)], cwd=catalogue.ROOT, stderr=subprocess.PIPE, text=True
        ) as build,
    ):
        try:
            for line in build.stderr or ():
                said.append(line)
                # "#12 [mariadb 3/7] RUN …" is a step that begins.
                if step := re.match(r"#\d+ \[(.+)", line):
                    status.update(f"building {escape('[' + step[1][:90])}")
        except BaseException:
            build.terminate()
            raise
    if build.returncode:
        raise LabError(
            f"building {', '.join(names)} failed:\n{last_lines(''.join(said))}",
            "every step to succeed",
            "./lab doctor",
        )


def all_tags() -> list[str]:
    """Return the names of the lab's images in the engine, with those under which they were pulled."""
    found = engine.client().api.images()
    return sorted({tag for image in found for tag in image["RepoTags"] or () if _is_own(image["Labels"] or {}, tag)})


def _is_own(labels: dict[str, str], tag: str) -> bool:
    recipe = labels.get(RECIPE, "")
    return tag.startswith(PREFIX) or (re.fullmatch(r"[0-9a-f]{16}", recipe) is not None and f":{recipe}-" in tag)


def remove_all() -> list[str]:
    """Remove the lab's images from the engine; return their names."""
    tags = all_tags()
    for tag in tags:
        engine.client().images.remove(tag, force=True)
    return tags
