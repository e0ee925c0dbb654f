"""Archives of images in a folder that a pipeline can cache: one file for each image, and a list with their digests.

A user or job that can write to such a cache must not replace other images. So an archive is verified before the engine
gets any of it, and the engine gets it under a name that nothing else uses. The digest of the list, kept elsewhere,
proves the contents as well.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from docker.errors import DockerException

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.core.progress import Tell
from replication_lab.world import host
from replication_lab.world.docker import archive, bake_file, engine, images
from replication_lab.world.docker.archive import CHUNK, Packed, Unfit
from replication_lab.world.files import replacing

LIST = "images.json"


class Listed(msgspec.Struct, frozen=True):
    """An archive in the list: its file, and the digests of the file, of the image and of its recipe."""

    archive: str
    sha256: str
    image: str
    recipe: str


class Saved(msgspec.Struct, frozen=True):
    """The archives of `lab images save`, the list beside them, and the digest that proves the list."""

    archives: list[str]
    listing: str
    sha256: str


def key(names: Sequence[str]) -> str:
    """Return a cache key for these images: another one after a change of a recipe, or on another processor."""
    tags = [f"{name}:{bake_file.tag(name, host.processor())}" for name in sorted(set(names))]
    digest = hashlib.sha256(json.dumps(tags).encode()).hexdigest()[:16]
    return f"replication-lab-{host.processor()}-{digest}"


def save(folder: Path, names: Sequence[str]) -> Saved:
    """Write an archive of each image, and a list of them; keep archives that hold the image that is here.

    Archives of older recipes are removed.
    """
    with (
        as_lab_error(OSError, f"{folder} cannot be written", "a folder with enough free space", "lab images save DIR"),
        as_lab_error(DockerException, "an image cannot be read", "a running Docker engine", "./lab doctor"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        paths = {name: _save(folder, name) for name in names}
        listed = {
            name: Listed(path.name, _sha256(path), archive.read(path).image, bake_file.digest(name))
            for name, path in sorted(paths.items())
        }
        content = msgspec.json.format(msgspec.json.encode(listed))
        with replacing(folder / LIST) as file:
            file.write(content)
    return Saved([str(path) for path in paths.values()], str(folder / LIST), hashlib.sha256(content).hexdigest())


def _save(folder: Path, name: str) -> Path:
    path = _path(folder, name)
    if not _holds_the_image_here(path, name):
        image = engine.client().images.get(images.PREFIX + name)
        with replacing(path) as file:
            file.writelines(image.save(CHUNK, named=f"{images.PREFIX}{name}:latest"))
    for old, whose in _in(folder).items():
        if whose == name and old != path:
            old.unlink()
    return path


def _holds_the_image_here(path: Path, name: str) -> bool:
    """Return whether an archive is there, and holds the very image of this engine: somebody else may have written it.

    An engine that keeps images in containerd's store gives them other IDs; there each archive is written again.
    """
    if not path.is_file():
        return False
    try:
        found = _fitting(path, name)
        found.verify()
    except Unfit:
        return False
    return found.image == engine.client().images.get(images.PREFIX + name).id


def load(folder: Path, tell: Tell, sha256: str = "") -> list[str]:
    """Load the archives of current recipes; return the names of their images. `tell` gets why another one is left.

    With the digest of the list, each file must have the digest that the list says. That is verified before the first
    one is loaded.
    """
    found = _in(folder)
    if not found:
        raise LabError(
            f"{folder} has no archive of an image", "a folder of `lab images save`", f"lab images save {folder}"
        )
    listed = _proved(folder, found, sha256) if sha256 else None
    return [name for path, name in found.items() if _load(path, name, tell, listed)]


def _proved(folder: Path, found: Iterable[Path], sha256: str) -> Mapping[str, Listed]:
    """Return the list of a folder by the names of files; LabError unless it and its files have these digests."""
    path = folder / LIST
    with as_lab_error(OSError, f"{path} cannot be read", "a folder of `lab images save`"):
        with path.open("rb") as file:
            content = file.read(archive.JSON_BYTES)
    _compare(path, hashlib.sha256(content).hexdigest(), sha256)
    listed = {each.archive: each for each in msgspec.json.decode(content, type=dict[str, Listed]).values()}
    for each in found:
        if each.name in listed:
            _compare(each, _sha256(each), listed[each.name].sha256)
    return listed


def _compare(path: Path, found: str, expected: str) -> None:
    if found != expected.lower():
        raise LabError(
            f"{path} has the SHA-256 {found}; nothing was loaded",
            f"{expected}, as `lab images save` has printed it",
            "./lab images build",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(path: Path, name: str, tell: Tell, listed: Mapping[str, Listed] | None) -> bool:
    if bake_file.target(name) not in bake_file.targets() or path != _path(path.parent, name):
        tell(
            f"{path.name} is not of this checkout's recipe, or for another processor; {name} is built when first needed"
        )
        return False
    if images.is_current(name):
        return True
    try:
        found = _fitting(path, name)
        if listed is not None and (path.name not in listed or listed[path.name].image != found.image):
            raise Unfit(f"the image {found.image} is not in {LIST}")
        found.verify()
        _give(found, name)
    except Unfit as error:
        tell(f"{path.name} is not loaded: {error}; {name} is built when first needed")
        return False
    except (DockerException, OSError) as error:
        raise LabError(
            f"{path} cannot be loaded: {error}", "an archive that `lab images save` wrote", f"rm {path}"
        ) from error
    return True


def _fitting(path: Path, name: str) -> Packed:
    """Return the image in an archive; Unfit if it has another name, recipe or processor than its file."""
    found = archive.read(path)
    own = {f"{images.PREFIX}{name}:latest", f"docker.io/{images.PREFIX}{name}:latest"}
    if foreign := sorted({*found.names} - own):
        raise Unfit(f"it names {', '.join(map(repr, foreign))}, and may name {images.PREFIX}{name} only")
    if not images.fits(name, found.configuration.architecture, found.labels):
        raise Unfit("its image was not built from the recipe in its name")
    return found


def _give(found: Packed, name: str) -> None:
    """Let the engine load an image under a name of its own, compare what it has loaded, and give it the lab's name."""
    known, own = engine.client().images, f"{images.PREFIX}loading-{secrets.token_hex(8)}:latest"
    known.load(found.stream(own))  # type: ignore[arg-type]  # requests takes an iterator, and sends it in parts
    image = known.get(own)
    try:
        if image.attrs["RootFS"]["Layers"] != found.diff_ids or not images.fits(
            name, image.attrs["Architecture"], image.labels
        ):
            raise Unfit("the engine has loaded another image than the archive holds")
        image.tag(images.PREFIX + name)
    finally:
        known.remove(own)


_NAME = re.compile(r"(.+)-[0-9a-f]{16}-[a-z0-9]+\.tar")


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}-{bake_file.tag(name, engine.processor())}.tar"


def _in(folder: Path) -> dict[Path, str]:
    """Return the archives in a folder, of any recipe, each with the name of its image."""
    files = sorted(path for path in folder.glob("*.tar") if path.is_file())
    return {path: match[1] for path in files if (match := _NAME.fullmatch(path.name))}
