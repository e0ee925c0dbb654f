"""Does an archive bring an image back, and never replace another image of this engine?"""

import io
import json
import secrets
import subprocess
import tarfile
from pathlib import Path

import pytest
from docker.errors import ImageNotFound
from replication_lab.world.docker import archives, bake_file, images

from tests.images.own_image import change, forget


def saved(folder, name) -> Path:
    """Save one image; return its archive."""
    (path,) = archives.save(folder, [name]).archives
    return Path(path)


def test_an_archive_brings_an_image_back(client, name, tmp_path):
    """Saved, removed, loaded: the same image, under its own name only; a second save writes nothing again."""
    images.ensure([name])
    before = client.images.get(images.PREFIX + name).id
    path = saved(tmp_path / "kept", name)
    written = path.stat().st_mtime_ns
    proof = archives.save(tmp_path / "kept", [name]).sha256
    assert path.stat().st_mtime_ns == written
    forget(client, name)

    assert archives.load(tmp_path / "kept", pytest.fail, proof) == [name]
    assert images.is_current(name) and client.images.get(before).tags == [f"{images.PREFIX}{name}:latest"]
    assert not [tag for tag in images.all_tags() if "loading-" in tag]


def test_a_poisoned_archive_replaces_no_other_image(client, name, tmp_path, victim):
    """`docker load` would. The archive is named and left, and the next save replaces it."""
    images.ensure([name])
    before = client.images.get(victim).id
    path = saved(tmp_path / "kept", name)
    poisoned(path, victim)
    forget(client, name)
    said: list[str] = []

    assert archives.load(tmp_path / "kept", said.append) == []
    assert victim in said[0] and client.images.get(victim).id == before
    with pytest.raises(ImageNotFound):
        client.images.get(images.PREFIX + name)
    images.ensure([name])
    saved(tmp_path / "kept", name)
    forget(client, name)
    assert archives.load(tmp_path / "kept", pytest.fail) == [name]


@pytest.fixture
def victim(client, tmp_path):
    """Return the name of an image that a poisoned archive claims."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY victim /\n")
    (folder / "victim").write_text("victim")
    tag = f"replication-lab-test/victim:{secrets.token_hex(4)}"
    subprocess.run(["docker", "buildx", "build", "--load", "-q", "-t", tag, folder], check=True)
    yield tag
    client.images.remove(tag, force=True)


def poisoned(path, victim) -> None:
    """Let an archive name another image as well."""
    with tarfile.open(path) as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive if each.isreg()}
    (entry,) = json.loads(files["manifest.json"])
    entry["RepoTags"].append(victim)
    files["manifest.json"] = json.dumps([entry]).encode()
    with tarfile.open(path, "w") as archive:
        for file, content in files.items():
            header = tarfile.TarInfo(file)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))


def test_a_stale_archive_is_not_loaded_and_the_next_save_replaces_it(client, name, tmp_path):
    """A changed recipe: the archive is named and left, the image is built, and the folder has the new one only."""
    images.ensure([name])
    old = saved(tmp_path / "kept", name)
    change(name)
    said: list[str] = []

    assert archives.load(tmp_path / "kept", said.append) == [] and old.name in said[0]
    assert not images.is_current(name)
    images.ensure([name])
    new = saved(tmp_path / "kept", name)
    assert {*(tmp_path / "kept").iterdir()} == {new, new.with_name(archives.LIST)} and new != old


def test_an_archive_under_a_wrong_name_is_not_used(client, name, tmp_path):
    """The label of the image counts, not the file's name."""
    images.ensure([name])
    old = saved(tmp_path / "kept", name)
    change(name)
    old.rename(old.with_name(f"{name}-{bake_file.tag(name, 'amd64')}.tar"))
    said: list[str] = []

    assert (
        archives.load(tmp_path / "kept", said.append) == [] and "was not built from the recipe in its name" in said[0]
    )
    assert not images.is_current(name)
