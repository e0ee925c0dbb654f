"""Archives of images in a folder that a pipeline can cache: one file for each image, named after its recipe."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from docker.errors import DockerException

from replication_lab.model.errors import LabError
from replication_lab.model.progress import Tell
from replication_lab.world import host
from replication_lab.world.docker import bake_file, engine, images

CHUNK = 1 << 20


def key(names: Sequence[str]) -> str:
    """Return a cache key for these images: another one after a change of a recipe, or on another processor."""
    tags = [f"{name}:{bake_file.tag(name, host.processor())}" for name in sorted(set(names))]
    digest = hashlib.sha256(json.dumps(tags).encode()).hexdigest()[:16]
    return f"replication-lab-{host.processor()}-{digest}"


def save(folder: Path, names: Sequence[str]) -> list[Path]:
    """Write an archive of each image that has none of its current recipe, and remove those of older recipes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_save(folder, name) for name in names]
    except DockerException as error:
        raise LabError(f"an image cannot be read: {error}", "a running Docker engine", "./lab doctor") from error
    except OSError as error:
        raise LabError(
            f"{folder} cannot be written: {error.strerror}", "a folder with enough free space", "lab images save DIR"
        ) from error


def _save(folder: Path, name: str) -> Path:
    path = _path(folder, name)
    if not path.exists():
        beside = folder / f".{path.name}.{os.getpid()}"
        try:
            with beside.open("wb") as archive:
                for chunk in (
                    engine.client().images.get(images.PREFIX + name).save(CHUNK, named=f"{images.PREFIX}{name}:latest")
                ):
                    archive.write(chunk)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    for old in _of(folder, name):
        if old != path:
            old.unlink()
    return path


def load(folder: Path, tell: Tell) -> list[str]:
    """Load the archives of current recipes; return the names of their images. `tell` gets why another one is left."""
    found = {path: match[1] for path in sorted(folder.glob("*.tar")) if (match := _NAME.fullmatch(path.name))}
    if not found:
        raise LabError(
            f"{folder} has no archive of an image", "a folder of `lab images save`", f"lab images save {folder}"
        )
    return [name for path, name in found.items() if _load(path, name, tell)]


def _load(path: Path, name: str, tell: Tell) -> bool:
    if bake_file.target(name) not in bake_file.targets() or path != _path(path.parent, name):
        tell(
            f"{path.name} is not of this checkout's recipe, or for another processor; {name} is built when first needed"
        )
        return False
    if images.is_current(name):
        return True
    try:
        with path.open("rb") as archive:
            engine.client().images.load(archive)
    except (DockerException, OSError) as error:
        raise LabError(
            f"{path} cannot be loaded: {error}", "an archive that `lab images save` wrote", f"rm {path}"
        ) from error
    if images.is_current(name):
        return True
    tell(
        f"{path.name} holds an image that was not built from the recipe in its name; {name} is built when first needed"
    )
    return False


_NAME = re.compile(r"(.+)-[0-9a-f]{16}-[a-z0-9]+\.tar")


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}-{bake_file.tag(name, engine.processor())}.tar"


def _of(folder: Path, name: str) -> list[Path]:
    """Return the archives of an image, of any recipe."""
    return [path for path in folder.glob("*.tar") if (match := _NAME.fullmatch(path.name)) and match[1] == name]
