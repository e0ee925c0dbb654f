"""An archive of one image, as `docker save` writes it: read without trust, verified, and passed on.

The engine gets an archive that is made here: the verified configuration and layers under one name. Nothing else that a
file holds reaches it, such as names of other images. An archive is read where it lies, so its size does not matter.
"""

import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

BLOCK, CHUNK = 512, 1 << 20
# Limits on what is read into memory, on the number of files, and on all layers unpacked.
JSON_BYTES, MOST_FILES, UNPACKED_BYTES = 4 << 20, 10_000, 16 << 30
REGULAR, EXTENSIONS = (tarfile.REGTYPE, tarfile.AREGTYPE), (tarfile.XHDTYPE, tarfile.XGLTYPE)
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# The name of an image in the index of an OCI layout.
NAME = "io.containerd.image.name"
Decoded = TypeVar("Decoded")


class Unfit(Exception):
    """An archive that must not be loaded; the text is the reason."""


class Part(NamedTuple):
    """Where a file lies in an archive."""

    offset: int
    size: int


class Entry(msgspec.Struct, frozen=True, rename="pascal"):
    """An image in manifest.json."""

    config: str
    layers: list[str]
    repo_tags: list[str] | None = None


class Descriptor(msgspec.Struct, frozen=True):
    """An image in index.json."""

    annotations: dict[str, str] | None = None


class Index(msgspec.Struct, frozen=True):
    """index.json, which current versions of Docker write beside manifest.json."""

    manifests: list[Descriptor] = []


class ImageSettings(msgspec.Struct, frozen=True, rename="pascal"):
    """What a container of the image starts with."""

    labels: dict[str, str] | None = None


class Root(msgspec.Struct, frozen=True):
    """The digests of the layers' tar files, unpacked."""

    diff_ids: list[str]


class Configuration(msgspec.Struct, frozen=True):
    """The parts of an image's configuration that are verified."""

    architecture: str
    rootfs: Root
    config: ImageSettings = ImageSettings()


class Packed(msgspec.Struct, frozen=True):
    """The image in an archive."""

    path: Path
    names: list[str]
    config: bytes
    configuration: Configuration
    layers: list[Part]

    @property
    def image(self) -> str:
        """Return the image's ID: the digest of its configuration, which contains the digests of its layers."""
        return f"sha256:{hashlib.sha256(self.config).hexdigest()}"

    @property
    def diff_ids(self) -> list[str]:
        return self.configuration.rootfs.diff_ids

    @property
    def labels(self) -> dict[str, str]:
        return self.configuration.config.labels or {}

    def verify(self) -> None:
        """Raise Unfit if a layer has another digest than the configuration says."""
        with self.path.open("rb") as file:
            left, seen = UNPACKED_BYTES, dict[Part, str]()
            for layer, wanted in zip(self.layers, self.diff_ids, strict=True):
                if layer not in seen:
                    digest = hashlib.sha256()
                    for chunk in _unpacked(file, layer):
                        left -= len(chunk)
                        if left < 0:
                            raise Unfit(f"its layers are larger than {UNPACKED_BYTES >> 30} GiB")
                        digest.update(chunk)
                    seen[layer] = f"sha256:{digest.hexdigest()}"
                if seen[layer] != wanted:
                    raise Unfit(f"a layer has the digest {seen[layer]}, its configuration says {wanted!r}")

    def stream(self, name: str) -> Iterator[bytes]:
        """Yield an archive of this image alone, under this name only; `verify` comes first."""
        config = f"{self.image.removeprefix('sha256:')}.json"
        layers = [f"{diff_id.removeprefix('sha256:')}/layer.tar" for diff_id in self.diff_ids]
        manifest = msgspec.json.encode([Entry(config, layers, [name])])
        for file_name, content in (("manifest.json", manifest), (config, self.config)):
            yield from _packed(file_name, len(content), iter([content]))
        with self.path.open("rb") as file:
            for file_name, part in dict(zip(layers, self.layers, strict=True)).items():
                yield from _packed(file_name, part.size, _chunks(file, part))
        yield bytes(2 * BLOCK)


def read(path: Path) -> Packed:
    """Return the image that an archive holds; Unfit if it holds none, several, or what `docker save` never writes."""
    with path.open("rb") as file:
        parts = _parts(file)
        entries = _json(file, parts, "manifest.json", list[Entry])
        if len(entries) != 1:
            raise Unfit(f"it holds {len(entries)} images, and not exactly one")
        index = _json(file, parts, "index.json", Index) if "index.json" in parts else Index()
        config = _content(file, parts, entries[0].config)
        configuration = _decoded(config, entries[0].config, Configuration)
        layers = [_part(parts, name) for name in entries[0].layers]
    named = [each.annotations[NAME] for each in index.manifests if each.annotations and NAME in each.annotations]
    found = Packed(path, [*(entries[0].repo_tags or []), *named], config, configuration, layers)
    if PurePosixPath(entries[0].config).name.removesuffix(".json") != found.image.removeprefix("sha256:"):
        raise Unfit(f"its configuration {entries[0].config!r} has the digest {found.image}")
    if len(layers) != len(found.diff_ids):
        raise Unfit(f"it has {len(layers)} layers, and its configuration {len(found.diff_ids)}")
    return found


# --- the tar file -----------------------------------------------------------------------------------------------------


def _parts(file: BinaryIO) -> dict[str, Part]:
    """Return the regular files of an archive by name, from the headers alone.

    Extended headers are skipped: the files that count have short names. Python's own reader would take them, of any
    size, into memory.
    """
    found, offset, length = dict[str, Part](), 0, os.fstat(file.fileno()).st_size
    for _ in range(MOST_FILES):
        file.seek(offset)
        header = file.read(BLOCK)
        if not header.strip(b"\0"):
            return found
        try:
            entry = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            raise Unfit("it is not a tar archive, or it is compressed") from error
        part = Part(offset + BLOCK, entry.size)
        offset = part.offset + -(-entry.size // BLOCK) * BLOCK
        if not 0 <= entry.size <= length - part.offset:
            raise Unfit("it is cut off")
        if entry.type in EXTENSIONS:
            continue
        _refuse_kind(entry)
        if entry.type in REGULAR:
            if entry.name in found:
                raise Unfit(f"it has {entry.name!r} twice")
            found[entry.name] = part
    raise Unfit(f"it has more than {MOST_FILES} files")


def _refuse_kind(entry: tarfile.TarInfo) -> None:
    if entry.type not in (*REGULAR, tarfile.DIRTYPE):
        raise Unfit(f"it has {entry.name!r}, which is neither a file nor a folder")
    if entry.name.startswith("/") or ".." in PurePosixPath(entry.name).parts:
        raise Unfit(f"it has the path {entry.name!r}, which leads out of it")


def _part(parts: dict[str, Part], name: str) -> Part:
    if name not in parts:
        raise Unfit(f"{name!r} is missing in it")
    return parts[name]


def _content(file: BinaryIO, parts: dict[str, Part], name: str) -> bytes:
    part = _part(parts, name)
    if part.size > JSON_BYTES:
        raise Unfit(f"{name!r} has {part.size} bytes, more than {JSON_BYTES}")
    return b"".join(_chunks(file, part))


def _json(file: BinaryIO, parts: dict[str, Part], name: str, kind: type[Decoded]) -> Decoded:
    return _decoded(_content(file, parts, name), name, kind)


def _decoded(content: bytes, name: str, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Unfit(f"{name!r} cannot be read: {error}") from error


def _chunks(file: BinaryIO, part: Part) -> Iterator[bytes]:
    file.seek(part.offset)
    left = part.size
    while left:
        chunk = file.read(min(CHUNK, left))
        if not chunk:
            raise Unfit("it became shorter while it was read")
        left -= len(chunk)
        yield chunk


def _packed(name: str, size: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield a file of a tar archive: header, content, padding."""
    entry = tarfile.TarInfo(name)
    entry.size = size
    yield entry.tobuf(tarfile.GNU_FORMAT)
    yield from chunks
    yield bytes(-size % BLOCK)


def _unpacked(file: BinaryIO, layer: Part) -> Iterator[bytes]:
    """Yield a layer's tar file; the engine takes a compressed one as well."""
    file.seek(layer.offset)
    start = file.read(min(4, layer.size))
    if start == ZSTD:
        raise Unfit("a layer is compressed by zstd, and its digest cannot be computed here")
    chunks = _chunks(file, layer)
    yield from _inflated(chunks) if start.startswith(GZIP) else chunks


def _inflated(chunks: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        for chunk in chunks:
            left = chunk
            while left:
                if unpacker.eof:
                    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
                yield unpacker.decompress(left, CHUNK)
                left = unpacker.unconsumed_tail or unpacker.unused_data
        yield unpacker.flush()
    except zlib.error as error:
        raise Unfit(f"a layer cannot be unpacked: {error}") from error
    if not unpacker.eof:
        raise Unfit("a layer is cut off")
