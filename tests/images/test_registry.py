"""Are images pushed to a registry and pulled from it, and a stale one never used?"""

import subprocess
import urllib.request
from pathlib import Path

import pytest
from replication_lab.world.docker import bake_file, images, registry

from tests.images.conftest import LABEL, until
from tests.images.own_image import change, forget

SOURCES = Path(__file__).parent / "registry"
REGISTRY = "replication-lab-test/registry"
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

    assert where.partition("@sha256:")[0] == f"{address}/team/lab/{name}:{bake_file.tag(name, 'amd64')}"
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


def test_with_digests_only_the_published_image_is_pulled(client, pushed, name, monkeypatch, capfd, tmp_path):
    """Somebody pushes another image with the right label under the same tag: the digest gives it away."""
    digests = tmp_path / "digests"
    images.ensure([name])
    digests.write_text(registry.publish(client.images.get(images.PREFIX + name), name, pushed))
    forget(client, name)
    monkeypatch.setenv(registry.DIGESTS, str(digests))
    recipe = f"replication-lab.recipe={bake_file.digest(name)}"
    tag = ":".join(registry.reference(pushed, name))
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM scratch\nCOPY Dockerfile /\nLABEL {recipe}\n")
    subprocess.run(["docker", "buildx", "build", "--load", "-q", "-t", tag, folder], check=True)
    subprocess.run(["docker", "push", "-q", tag], check=True)
    forget(client, name)
    monkeypatch.setattr(images, "_bake", lambda names: pytest.fail(f"{names} was built"))
    images.ensure([name])

    assert images.published(images.PREFIX + name) == [f"{pushed}/{name}@{digests.read_text().partition('@')[2]}"]
    left = client.images.get(images.PREFIX + name).id
    monkeypatch.delenv(registry.DIGESTS)
    forget(client, name)
    assert left not in [each.id for each in client.images.list(all=True)]
    images.ensure([name])
    assert images.published(images.PREFIX + name) != [f"{pushed}/{name}@{digests.read_text().partition('@')[2]}"]


@pytest.fixture
def released(client, address, name, monkeypatch, tmp_path):
    """Publish the image as a release does, and remove it from this machine; gives the file of digests."""
    images.ensure([name])
    file = tmp_path / "released.digests"
    file.write_text(registry.publish(client.images.get(images.PREFIX + name), name, f"{address}/team/lab"))
    forget(client, name)
    monkeypatch.setattr(registry.base_image, "RELEASED", file)
    monkeypatch.delenv(registry.VARIABLE, raising=False)
    return file


def test_a_release_pulls_its_own_images_by_their_digests(client, released, name, monkeypatch):
    """Nothing is set, and nothing is built."""
    monkeypatch.setattr(images, "_bake", lambda names: pytest.fail(f"{names} was built"))
    images.ensure([name])

    assert images.is_current(name)
    assert images.published(images.PREFIX + name)[0].partition("@")[2] == released.read_text().partition("@")[2]


@pytest.mark.parametrize("lost", ["registry", "image", "recipe", "release"])
def test_a_release_builds_what_it_cannot_pull(client, released, name, monkeypatch, capfd, lost):
    """Its registry does not answer or lacks the image, the recipe has changed since, or you want none of its images."""
    text = released.read_text()
    if lost == "registry":
        released.write_text(text.replace(text.partition("/")[0], "127.0.0.1:9"))
    elif lost == "image":
        released.write_text(f"{text.partition('@')[0]}@sha256:{'0' * 64}")
    elif lost == "recipe":
        change(name)
    else:
        monkeypatch.setenv(registry.VARIABLE, registry.NONE)
    images.ensure([name])

    assert images.is_current(name) and images.published(images.PREFIX + name) == []
    assert (f"building {name} here" in capfd.readouterr().err) == (lost != "release")


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
        from replication_lab.model.core.errors import LabError

        with pytest.raises(LabError) as told:
            act(*arguments)
        return told.value

    return call
