"""The user's own image registry: fetch images built before from it, and publish them there.

An image's tag in the registry has the digest of its recipe and its processor, so an image of another recipe or for
another processor is never taken for the one that is needed.
"""

import os
import re

from docker.errors import APIError, DockerException, NotFound
from docker.models.images import Image

from replication_lab.model.errors import LabError
from replication_lab.world.docker import bake_file, engine

VARIABLE = "LAB_IMAGES"
_PREFIX = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*")


def prefix() -> str:
    """Return what LAB_IMAGES holds, checked; an empty string if it is unset."""
    found = os.environ.get(VARIABLE, "").rstrip("/")
    return checked(found, VARIABLE) if found else ""


def checked(found: str, origin: str) -> str:
    """Return a prefix of image names; LabError for one that Docker would not take."""
    found = found.rstrip("/")
    if not _PREFIX.fullmatch(found):
        raise LabError(
            f"{origin} is {found!r}",
            "a registry's name and a path in lower case, without https://",
            f"{origin} registry.example/team/lab",
        )
    return found


def reference(prefix_: str, name: str) -> tuple[str, str]:
    """Return the repository and the tag of an image in a registry."""
    return f"{prefix_}/{name}", bake_file.tag(name, engine.processor())


def fetched(name: str) -> Image | str:
    """Return an image of the current recipe from the registry of LAB_IMAGES, or the reason why there is none."""
    repository, tag = reference(prefix(), name)
    try:
        image = engine.client().images.pull(repository, tag)
    except (NotFound, APIError, DockerException) as error:
        return f"{repository}:{tag} cannot be pulled: {getattr(error, 'explanation', '') or error}"
    if (found := image.labels.get(bake_file.RECIPE, "none")) != bake_file.digest(name):
        engine.client().images.remove(f"{repository}:{tag}")
        return f"{repository}:{tag} has the recipe {found}, this checkout {bake_file.digest(name)}"
    return image


def publish(image: Image, name: str, prefix_: str) -> str:
    """Push an image; return its name in the registry. Raise LabError with the registry's message if that fails."""
    repository, tag = reference(prefix_, name)
    image.tag(repository, tag)
    try:
        for line in engine.client().images.push(repository, tag, stream=True, decode=True):
            if "error" in line:
                raise LabError(
                    f"pushing {repository}:{tag} failed: {line['error']}",
                    "a registry that answers and accepts it",
                    f"docker login {repository.partition('/')[0]}",
                )
    finally:
        # The image keeps its own name here; the registry's is only for the push.
        engine.client().images.remove(f"{repository}:{tag}")
    return f"{repository}:{tag}"
