"""Does an archive of an image change this engine only as its name says, whatever somebody has put into it?

The archives are made by hand. tests/images/test_archives.py has those that `docker save` writes.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import archive, archives, bake_file, images

from tests.fakes.docker_engine import Image

NAME, OWN, OTHER = "load", "replication-lab/load", "debian:trixie-slim"
LAYER = b"the bytes of a layer" * 100


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def configuration(layers=(LAYER,), recipe=None, architecture="amd64"):
    """Return the configuration of an image with these layers, as text."""
    labels = {images.RECIPE: recipe or bake_file.digest(NAME)}
    ids = [f"sha256:{sha256(layer)}" for layer in layers]
    found = {"architecture": architecture, "os": "linux", "config": {"Labels": labels}, "rootfs": {"diff_ids": ids}}
    return json.dumps(found).encode()


def image(config=None, layers=(LAYER,), names=(f"{OWN}:latest",), entry=None, packed=None):
    """Return the files of an archive of one image; `packed` are the layers as they lie in it."""
    config = configuration(layers) if config is None else config
    blobs = {f"blobs/sha256/{sha256(each)}": each for each in packed or layers}
    found = {"Config": f"blobs/sha256/{sha256(config)}", "RepoTags": list(names), "Layers": list(blobs)} | (entry or {})
    return {**blobs, f"blobs/sha256/{sha256(config)}": config, "manifest.json": json.dumps([found]).encode()}


def write(path, files, mode="w", more=()):
    """Write files, and further headers, as a tar archive."""
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, mode, format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
        for header in more:
            tar.addfile(header)


@pytest.fixture
def path(tmp_path, engine, monkeypatch):
    """Return where the archive of the current recipe belongs; the engine has another image of the lab, and Debian's."""
    monkeypatch.setattr(archives.host.platform, "machine", lambda: "x86_64")
    return tmp_path / "kept" / f"{NAME}-{bake_file.tag(NAME, 'amd64')}.tar"


@pytest.fixture
def known(engine):
    """Return what the engine has: Debian, and another image of the lab."""
    return engine(known={OTHER: Image({"is": "Debian"}), "replication-lab/mariadb": Image({"is": "MariaDB"})}).known


@pytest.fixture
def left(path, known):
    """Load the folder; return why the archive was left, after a look at what the engine has."""

    def load(**options):
        said, before = [], dict(known)
        assert archives.load(path.parent, said.append, **options) == []
        assert known == before
        (reason,) = said
        assert f"{path.name} is not loaded: " in reason and f"{NAME} is built when first needed" in reason
        return reason

    return load


def test_an_archive_of_the_current_recipe_is_loaded_under_its_own_name(path, known):
    """And under no other, not even the one that it was loaded under."""
    write(path, image())
    before = set(known)

    assert archives.load(path.parent, pytest.fail) == [NAME]
    assert set(known) - before == {OWN} and images.is_current(NAME)


@pytest.mark.parametrize(
    "names", [[OTHER], [f"{OWN}:latest", OTHER], ["replication-lab/mariadb:latest"], [f"{OWN}:other"], ["\x1b[2J"]]
)
def test_an_archive_that_names_another_image_replaces_none(path, left, names):
    """Neither an image of others nor another one of the lab; the message has the name."""
    write(path, image(names=names))

    assert ascii(names[-1]) in left()


def test_names_in_the_index_of_an_oci_layout_count_as_well(path, left):
    """Engines with containerd's store read that file, and not manifest.json."""
    index = {"manifests": [{"annotations": {archive.NAME: f"docker.io/library/{OTHER}"}}]}
    write(path, {**image(), "index.json": json.dumps(index).encode()})

    assert OTHER in left()


def test_a_second_image_in_an_archive_is_refused(path, left):
    """Its layers are all right; it has no business here."""
    files = image()
    files["manifest.json"] = json.dumps(json.loads(files["manifest.json"]) * 2).encode()
    write(path, files)

    assert "it holds 2 images" in left()


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (lambda: image(configuration(recipe="0" * 16)), "was not built from the recipe in its name"),
        (lambda: image(configuration(architecture="arm64")), "was not built from the recipe in its name"),
        (lambda: image(configuration([b"other"])), "a layer has the digest"),
        (lambda: image(configuration([LAYER, LAYER])), "it has 1 layers, and its configuration 2"),
        (lambda: {**image(), **dict.fromkeys([*image()][1:2], configuration() + b" ")}, "its configuration 'blobs/"),
        (lambda: image(entry={"Config": "../config"}), "'../config' is missing in it"),
        (lambda: image(entry={"Layers": ["/etc/passwd"]}), "'/etc/passwd' is missing in it"),
        (lambda: image(b'{"architecture": 1}'), "cannot be read"),
        (lambda: image(b"[" * 100_000), "cannot be read"),
        (lambda: {"manifest.json": b"[]"}, "it holds 0 images"),
        (lambda: {"something": b"else"}, "'manifest.json' is missing"),
        (lambda: {**image(), "manifest.json": b" " * (archive.JSON_BYTES + 1)}, "more than"),
        (lambda: {**image(), "../outside": b"x"}, "the path '../outside', which leads out of it"),
        (lambda: {**image(), "/absolute": b"x"}, "the path '/absolute', which leads out of it"),
        (lambda: {**image(), "a/../../outside": b"x"}, "which leads out of it"),
        (lambda: image(packed=[archive.ZSTD + b"x"]), "compressed by zstd"),
        (lambda: image(packed=[gzip.compress(LAYER)[:-9]]), "a layer is cut off"),
        (lambda: image(packed=[archive.GZIP + b"x" * 20]), "a layer cannot be unpacked"),
    ],
)
def test_an_archive_that_contradicts_itself_is_left(path, left, files, reason):
    """The engine gets nothing of it."""
    write(path, files())

    assert reason in left()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE])
def test_links_and_devices_are_refused(path, left, kind):
    """`docker save` writes files and folders only."""
    link = tarfile.TarInfo("link")
    link.type, link.linkname = kind, "/etc/passwd"
    write(path, image(), more=[link])

    assert "neither a file nor a folder" in left()


def test_the_same_file_twice_is_refused(path, left):
    """Readers differ in which of the two they take."""
    write(path, image())
    write(path, {"manifest.json": b"[]"}, "a")

    assert "'manifest.json' twice" in left()


def test_a_compressed_archive_and_one_that_is_cut_off_are_refused(path, left):
    """`lab images save` compresses nothing."""
    write(path, image(), "w:gz")
    assert "or it is compressed" in left()
    write(path, image())
    path.write_bytes(path.read_bytes()[:1000])
    assert "it is cut off" in left()


def test_a_header_of_any_size_is_not_read_into_memory(path, known):
    """Python's own reader would take an extended header of gigabytes; here it is a hole in the file, and is skipped."""
    write(path, image())
    whole, size = path.read_bytes(), 8 << 30
    header = tarfile.TarInfo("huge")
    header.type, header.size = tarfile.XHDTYPE, size
    with path.open("wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.seek(size, 1)
        file.write(whole)

    assert archives.load(path.parent, pytest.fail) == [NAME]


def test_more_files_than_an_image_has_are_refused(path, left, monkeypatch):
    """A list without an end would fill the memory."""
    monkeypatch.setattr(archive, "MOST_FILES", 2)
    write(path, image())

    assert "more than 2 files" in left()


def test_layers_that_unpack_to_too_much_are_refused(path, left, monkeypatch):
    """A few kilobytes may hold gigabytes."""
    monkeypatch.setattr(archive, "UNPACKED_BYTES", 1 << 20)
    large = bytes(4 << 20)
    write(path, image(layers=[large], packed=[gzip.compress(large)]))

    assert "its layers are larger" in left()


def test_compressed_layers_are_verified_unpacked(path, known):
    """As an engine with containerd's store saves them; in two parts, which is one file for gzip."""
    packed = gzip.compress(LAYER[:50]) + gzip.compress(LAYER[50:])
    write(path, image(packed=[packed]))

    assert archives.load(path.parent, pytest.fail) == [NAME]


def test_what_the_engine_made_of_the_archive_is_compared(path, left, monkeypatch, known):
    """An engine that reads the configuration in another way: the image is removed again."""
    taken = images.engine.client().load

    def loaded(content):
        taken(content)
        for name in [name for name in known if "loading-" in name]:
            known[name].labels = {images.RECIPE: "another"}

    monkeypatch.setattr(images.engine.client(), "load", loaded)
    write(path, image())

    assert "the engine has loaded another image" in left()


# --- the list and its digest ------------------------------------------------------------------------------------------


@pytest.fixture
def listed(path):
    """Write the list of the archive beside it, with other values if given; return its digest."""

    def write_list(**other):
        found = {"archive": path.name, "sha256": sha256(path.read_bytes()), "image": archive.read(path).image}
        content = json.dumps({NAME: {**found, "recipe": bake_file.digest(NAME), **other}}).encode()
        (path.parent / archives.LIST).write_bytes(content)
        return sha256(content)

    return write_list


def test_with_the_digest_of_the_list_an_archive_is_loaded(path, known, listed):
    """In any case of letters."""
    write(path, image())

    assert archives.load(path.parent, pytest.fail, listed().upper()) == [NAME]


def test_with_another_digest_nothing_is_loaded(path, known, listed, refused):
    """The message has both, and what to do."""
    write(path, image())
    found, before = listed(), dict(known)
    error = refused(archives.load, path.parent, pytest.fail, "0" * 64)

    assert f"images.json has the SHA-256 {found}; nothing was loaded" in error.found
    assert "0" * 64 in error.expected and error.next_step == "./lab images build"
    assert known == before


def test_an_archive_that_has_changed_since_is_not_loaded(path, known, listed, refused):
    """Another image with the right label and the right name: only the digest tells."""
    write(path, image())
    digest, before = listed(), dict(known)
    write(path, image(layers=[b"other"]))
    error = refused(archives.load, path.parent, pytest.fail, digest)

    assert f"{path.name} has the SHA-256" in error.found and known == before


def test_an_archive_that_is_not_in_the_list_is_left(path, left, listed):
    """Somebody has put it beside the others; and the list's image is the one that counts."""
    write(path, image())

    assert "is not in images.json" in left(sha256=listed(archive="another.tar"))
    assert "is not in images.json" in left(sha256=listed(image=f"sha256:{'0' * 64}"))


def test_a_folder_without_a_list_is_refused_if_a_digest_is_given(path, known, refused):
    """It may be of an older version."""
    write(path, image())

    assert "images.json cannot be read" in refused(archives.load, path.parent, pytest.fail, "0" * 64).found


def test_a_text_that_is_no_digest_is_refused():
    """An empty variable of a pipeline must not turn the check off."""
    for given in ("", "abc", "g" * 64):
        with pytest.raises(LabError, match="64 hexadecimal digits"):
            ended = CliRunner().invoke(cli.cli, ["images", "load", "kept", "--sha256", given], prog_name="lab")
            raise ended.exception


# --- what is saved ----------------------------------------------------------------------------------------------------


class Saved(Image):
    """An image of the engine that is saved as an archive of these files."""

    def __init__(self, folder, files):
        super().__init__()
        self.id, self.files, self.folder, self.times = archive_id(files), files, folder, 0

    def save(self, _chunk, named):
        self.times += 1
        write(self.folder / "saved.tar", self.files)
        yield (self.folder / "saved.tar").read_bytes()


def archive_id(files):
    return f"sha256:{json.loads(files['manifest.json'])[0]['Config'].removeprefix('blobs/sha256/')}"


@pytest.fixture
def here(known, tmp_path):
    known[OWN] = Saved(tmp_path / "saved", image())
    return known[OWN]


def test_the_list_has_the_digests_of_every_archive(path, here):
    """And the digest that is returned is that of the list."""
    saved = archives.save(path.parent, [NAME])
    listed = json.loads((path.parent / archives.LIST).read_text())[NAME]

    assert saved.archives == [str(path)] and saved.sha256 == sha256((path.parent / archives.LIST).read_bytes())
    assert listed["sha256"] == sha256(path.read_bytes()) and listed["image"] == here.id
    assert archives.save(path.parent, [NAME]) == saved and here.times == 1


def test_an_archive_that_somebody_else_has_written_is_replaced(path, here):
    """Else the next list would vouch for it: the right names, recipe and layers, and another configuration."""
    config = json.loads(configuration())
    config["config"]["Entrypoint"] = ["/bin/other"]
    write(path, image(json.dumps(config).encode()))
    archives.save(path.parent, [NAME])

    assert here.times == 1 and archive.read(path).image == here.id


def test_a_link_in_the_folder_is_not_written_through(path, here, tmp_path):
    """Somebody has put links there, which lead to files of this user."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path.parent.mkdir()
    for link in (path, path.parent / archives.LIST):
        link.symlink_to(precious)
    archives.save(path.parent, [NAME])

    assert precious.read_text() == "precious"
    assert path.is_file() and not path.is_symlink() and not (path.parent / archives.LIST).is_symlink()


def test_a_pipe_in_the_folder_is_passed_over(path, known, refused):
    """Reading it would wait for ever."""
    path.parent.mkdir()
    os.mkfifo(path)

    assert "has no archive" in refused(archives.load, path.parent, pytest.fail).found
