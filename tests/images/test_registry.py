"""Are images pushed to a registry, pulled from it, and kept in archives, and a stale one never used?

The tests build an image of their own, so that none that other tests use is replaced.
"""

import secrets
import subprocess
import urllib.request
from pathlib import Path

import pytest
from docker.errors import ImageNotFound
from replication_lab.world import catalogue
from replication_lab.world.docker import archives, bake_file, images, registry

from tests.images.conftest import LABEL, until

SOURCES = Path(__file__).parent / "registry"
REGISTRY = "replication-lab-test/registry"
BAKE = """
services:
  {name}:
    image: replication-lab/{name}
    build: {{context: images/{name}}}
"""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def address(client):
    """Start a registry on loopback; return its address."""
    images.ensure(["toxiproxy"])
    subprocess.run(["docker", "buildx", "build", "--load", "-q", "-t", REGISTRY, SOURCES], check=True)
    container = client.containers.run(
        REGISTRY, detach=True, labels={LABEL: "1"}, cap_drop=["ALL"], ports={"5000/tcp": ("127.0.0.1", None)}
    )

    def found():
        container.reload()
        port = container.ports["5000/tcp"][0]["HostPort"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=1):
                return f"127.0.0.1:{port}"
        except OSError:
            return ""

    try:
        yield until(found, "the registry")
    finally:
        container.remove(force=True, v=True)


@pytest.fixture
def name(client, tmp_path, monkeypatch):
    """Return the name of an image that only this test has, in a folder images/ of its own."""
    chosen = f"test-{secrets.token_hex(4)}"
    folder = tmp_path / "images" / chosen
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY content /\n")
    (folder / "content").write_text("first")
    (tmp_path / "images" / "bake.yaml").write_text(BAKE.format(name=chosen))
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(catalogue, "IMAGES", tmp_path / "images")
    monkeypatch.setitem(images.MEGABYTES, chosen, 1)
    yield chosen
    for tag in [tag for image in client.images.list() for tag in image.tags if chosen in tag]:
        client.images.remove(tag, force=True)


def change(name: str) -> None:
    (catalogue.IMAGES / name / "content").write_text("second")


def forget(client, name: str) -> None:
    """Remove an image from this machine, under every name."""
    for tag in [tag for image in client.images.list() for tag in image.tags if name in tag]:
        client.images.remove(tag, force=True)
    with pytest.raises(ImageNotFound):
        client.images.get(images.PREFIX + name)


@pytest.fixture
def pushed(client, address, name, monkeypatch):
    """Build the image, push it, and remove it from this machine; LAB_IMAGES leads to the registry."""
    images.ensure([name])
    prefix = f"{address}/team/lab"
    registry.publish(client.images.get(images.PREFIX + name), name, prefix)
    forget(client, name)
    monkeypatch.setenv(registry.VARIABLE, prefix)
    return prefix


def test_a_pushed_image_is_pulled_in_place_of_a_build(client, pushed, name, monkeypatch):
    """It has the name that labs use, and the name and digest of where it came from."""
    monkeypatch.setattr(images, "_bake", lambda names: pytest.fail(f"{names} was built"))
    images.ensure([name])

    assert images.is_current(name)
    assert [each.partition("@")[0] for each in images.published(images.PREFIX + name)] == [f"{pushed}/{name}"]


def test_a_push_leaves_no_name_of_the_registry_here(client, address, name):
    """The image keeps its own name only."""
    images.ensure([name])
    where = registry.publish(client.images.get(images.PREFIX + name), name, f"{address}/team/lab")

    assert where == f"{address}/team/lab/{name}:{bake_file.tag(name, 'amd64')}"
    assert client.images.get(images.PREFIX + name).tags == [f"{images.PREFIX}{name}:latest"]


def test_an_image_of_an_older_recipe_is_not_pulled(client, pushed, name, capfd):
    """After a change of the recipe the registry has none under the new one; a line says so, and it is built."""
    change(name)
    images.ensure([name])

    assert images.is_current(name)
    assert images.published(images.PREFIX + name) == []
    assert f"cannot be pulled: manifest for {pushed}/{name}:" in capfd.readouterr().err


def test_an_image_that_lies_about_its_recipe_is_not_used(client, pushed, name, capfd):
    """Somebody has pushed the old image under the new recipe's tag: its label gives it away."""
    old = bake_file.digest(name)
    images.ensure([name])
    change(name)
    repository, tag = registry.reference(pushed, name)
    client.images.get(images.PREFIX + name).tag(repository, tag)
    list(client.images.push(repository, tag, stream=True, decode=True))
    client.images.remove(f"{repository}:{tag}")
    images.ensure([name])

    assert images.is_current(name)
    said = capfd.readouterr().err
    assert f"{repository}:{tag} has the recipe {old}, this checkout {bake_file.digest(name)}" in said
    assert f"building {name} here" in said


def test_a_registry_that_does_not_answer_costs_a_line_and_a_build(client, name, monkeypatch, capfd):
    """The image is built here."""
    monkeypatch.setenv(registry.VARIABLE, "127.0.0.1:9/nothing")
    images.ensure([name])

    assert images.is_current(name)
    assert f"127.0.0.1:9/nothing/{name}:" in capfd.readouterr().err


def test_a_push_that_is_refused_says_why(client, name, refused_by):
    """The registry's own message, and no name left here."""
    images.ensure([name])
    error = refused_by(registry.publish, client.images.get(images.PREFIX + name), name, "127.0.0.1:9/nothing")

    assert "pushing 127.0.0.1:9/nothing/" in error.found
    assert client.images.get(images.PREFIX + name).tags == [f"{images.PREFIX}{name}:latest"]


@pytest.fixture
def refused_by():
    def call(act, *arguments):
        from replication_lab.model.errors import LabError

        with pytest.raises(LabError) as told:
            act(*arguments)
        return told.value

    return call


def test_an_archive_brings_an_image_back(client, name, tmp_path):
    """Saved, removed, loaded: under its own name and current; a second save writes nothing again."""
    images.ensure([name])
    (path,) = archives.save(tmp_path / "kept", [name])
    written = path.stat().st_mtime_ns
    assert archives.save(tmp_path / "kept", [name]) == [path] and path.stat().st_mtime_ns == written
    forget(client, name)

    assert archives.load(tmp_path / "kept", pytest.fail) == [name]
    assert images.is_current(name)


def test_a_stale_archive_is_not_loaded_and_the_next_save_replaces_it(client, name, tmp_path):
    """A changed recipe: the archive is named and left, the image is built, and the folder has the new one only."""
    images.ensure([name])
    (old,) = archives.save(tmp_path / "kept", [name])
    change(name)
    said: list[str] = []

    assert archives.load(tmp_path / "kept", said.append) == [] and old.name in said[0]
    assert not images.is_current(name)
    images.ensure([name])
    (new,) = archives.save(tmp_path / "kept", [name])
    assert [*(tmp_path / "kept").iterdir()] == [new] != [old]


def test_an_archive_under_a_wrong_name_is_not_used(client, name, tmp_path):
    """The label of the loaded image counts, not the file's name."""
    images.ensure([name])
    (old,) = archives.save(tmp_path / "kept", [name])
    change(name)
    old.rename(old.with_name(f"{name}-{bake_file.tag(name, 'amd64')}.tar"))
    said: list[str] = []

    assert (
        archives.load(tmp_path / "kept", said.append) == [] and "was not built from the recipe in its name" in said[0]
    )
    assert not images.is_current(name)
