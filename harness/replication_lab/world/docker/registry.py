"""The user's own image registry: fetch images built before from it, and publish them there.

An image's tag in the registry has the digest of its recipe and its processor, so an image of another recipe or for
another processor is never taken for the one that is needed. An account that can push there can still put another image
under the tag. With a file of digests, as `lab images build --push` prints them, only those images are pulled. A release
contains such a file: without LAB_IMAGES its images are pulled.
"""

import os
import re
from pathlib import Path

from docker.errors import APIError, DockerException, NotFound
from docker.models.images import Image

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.world.docker import bake_file, base_image, engine

VARIABLE, DIGESTS = "LAB_IMAGES", "LAB_IMAGES_DIGESTS"
# The value of LAB_IMAGES with which every image is built here.
NONE = "none"
_PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}")
_PREFIX = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*")


def prefix() -> str:
    """Return the prefix in LAB_IMAGES, checked, or without it that of the release; an empty string if there is none."""
    found = os.environ.get(VARIABLE, "").rstrip("/")
    if not found:
        pinned = next(iter(_pinned(base_image.RELEASED)), "") if base_image.RELEASED.is_file() else ""
        return pinned.rpartition("/")[0]
    return "" if found == NONE else checked(found, VARIABLE)


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
    wanted = f"{repository}:{tag}"
    digests = _digests()
    digest = _pinned(digests).get(wanted) if digests else None
    if digests and not digest:
        return f"{digests} has no digest of {wanted}"
    try:
        image = engine.client().images.pull(repository, digest or tag)
        # What is pulled by its digest has no tag, and `lab clean --images` finds images by their tags.
        image.tag(repository, tag)
    except (NotFound, APIError, DockerException) as error:
        return f"{wanted} cannot be pulled: {getattr(error, 'explanation', '') or error}"
    if (found := image.labels.get(bake_file.RECIPE, "none")) != bake_file.digest(name):
        engine.client().images.remove(wanted)
        return f"{wanted} has the recipe {found}, this checkout {bake_file.digest(name)}"
    return image


def _digests() -> Path | None:
    """Return the file of digests: that of LAB_IMAGES_DIGESTS, or the release's without LAB_IMAGES; None without one."""
    if path := os.environ.get(DIGESTS):
        return Path(path)
    return None if os.environ.get(VARIABLE) or not base_image.RELEASED.is_file() else base_image.RELEASED


def _pinned(path: Path) -> dict[str, str]:
    """Return the digest of each image in a file of digests; LabError for a file that cannot be read."""
    with as_lab_error(OSError, f"{DIGESTS} is {path}, which cannot be read", "what `lab images build --push` printed"):
        lines = path.read_text().splitlines()
    return dict(line.strip().split("@", 1) for line in lines if _PINNED.fullmatch(line.strip()))


def publish(image: Image, name: str, prefix_: str) -> str:
    """Push an image; return its name and digest in the registry, or raise LabError with the registry's message."""
    repository, tag = reference(prefix_, name)
    image.tag(repository, tag)
    digest = ""
    try:
        for line in engine.client().images.push(repository, tag, stream=True, decode=True):
            if "error" in line:
                raise LabError(
                    f"pushing {repository}:{tag} failed: {line['error']}",
                    "a registry that answers and accepts it",
                    f"docker login {repository.partition('/')[0]}",
                )
            digest = line.get("aux", {}).get("Digest", digest)
    finally:
        # The image keeps its own name here; the registry's is only for the push.
        engine.client().images.remove(f"{repository}:{tag}")
    return f"{repository}:{tag}@{digest}"
