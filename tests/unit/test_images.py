"""Are images built only when and where they can be?"""

import contextlib
import io
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.storage import Storage
from replication_lab.world import catalogue
from replication_lab.world.disks import array
from replication_lab.world.docker import bake_file, base_image, images, machine
from replication_lab.world.docker import engine as docker_engine

from tests.fakes.docker_engine import Build, Image

Usage = namedtuple("Usage", "total used free")

BAKE = """
x-old: &old {database: images/database, maven: "target:maven"}
services:
  mariadb:
    build: {context: images/mariadb, additional_contexts: {database: images/database}}
  mysql-5.5:
    build: {context: images/mysql-5.5, additional_contexts: *old}
  mysql-8.0:
    build: {context: images/mysql-8.0, additional_contexts: *old}
  maven:
    build: {context: images/maven}
  load:
    build: {context: images/load}
"""


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """Return images/ of this test's own: three servers, their shared folders, and the bake file."""
    for name in ("mariadb", "maven", "mysql-5.5", "mysql-8.0", "database", "load"):
        path = tmp_path / "images" / name / "Dockerfile"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
    (tmp_path / "images" / "bake.yaml").write_text(BAKE)
    monkeypatch.setattr(catalogue, "IMAGES", tmp_path / "images")
    return tmp_path / "images"


@pytest.fixture
def changed_by(folder):
    """Return the images whose recipe differs after a change of the test's own."""

    def changed(change) -> set[str]:
        names = ("mariadb", "mysql-5.5", "mysql-8.0", "load")
        before = {name: bake_file.digest(name) for name in names}
        change()
        return {name for name in names if bake_file.digest(name) != before[name]}

    return changed


@pytest.mark.parametrize(
    ("file", "images_of_it"),
    [
        ("mariadb/Dockerfile", {"mariadb"}),
        ("load/new", {"load"}),
        ("mysql-5.5/Dockerfile", {"mysql-5.5"}),
        ("maven/Dockerfile", {"mysql-5.5", "mysql-8.0"}),
        ("database/Dockerfile", {"mariadb", "mysql-5.5", "mysql-8.0"}),
    ],
)
def test_a_recipe_changes_with_all_that_goes_into_the_image(folder, changed_by, file, images_of_it):
    """Its folder, and those it takes from at any distance: a parent's change rebuilds all its children, no more."""
    assert changed_by(lambda: (folder / file).write_text("two")) == images_of_it


@pytest.mark.parametrize(
    ("old", "new", "images_of_it"),
    [
        ("images/load}", "images/load, target: small}", {"load"}),
        ("images/maven}", "images/maven, target: small}", {"mysql-5.5", "mysql-8.0"}),
        ("images/database, maven", "images/load, maven", {"mysql-5.5", "mysql-8.0"}),
        ("  load:", "  unused:\n    build: {context: images/load}\n  load:", set()),
        ("services:", "# Built by bake.\nservices:", set()),
    ],
)
def test_a_recipe_changes_with_the_targets_that_it_takes_from_only(folder, changed_by, old, new, images_of_it):
    """A service that is added for another image causes no rebuild, and neither does a comment."""
    assert old in BAKE

    assert changed_by(lambda: bake_file.path().write_text(BAKE.replace(old, new))) == images_of_it


def test_a_recipe_changes_when_a_file_is_renamed(folder, changed_by):
    """Content alone is not enough: a file under another name is another build."""
    dockerfile = folder / "load" / "Dockerfile"

    assert changed_by(lambda: dockerfile.rename(folder / "load" / "Containerfile")) == {"load"}


def test_the_bake_files_own_targets_are_read_as_docker_reads_them():
    """Each of Maven's engines is built from its own folder, on a parent that all of them share."""
    from_archives = {name for name, each in catalogue.engines().items() if each.source.startswith("Maven")}

    assert len(from_archives) == 7
    for name in from_archives:
        assert sorted(bake_file.targets_of(name)) == sorted(["archived", "maven", bake_file.target(name)])
        assert bake_file.targets()[bake_file.target(name)]["context"] == f"images/{name}"


def test_an_image_is_current_while_its_recipe_is(engine, folder):
    """An image of another recipe, or none at all, is not."""
    known = engine().known
    assert not images.is_current("load")
    known["replication-lab/load"] = Image({images.RECIPE: bake_file.digest("load")})
    assert images.is_current("load")
    (folder / "load" / "Dockerfile").write_text("two")

    assert not images.is_current("load")


@pytest.fixture
def built(engine, folder, monkeypatch):
    """Return the commands of builders, on a machine with these images and this many MB of free disk."""

    def on(build=None, megabytes=100_000, **known):
        commands = []

        def start(command, **_options):
            commands.append(command)
            return build or Build()

        monkeypatch.setattr(images.subprocess, "Popen", start)
        monkeypatch.setattr(machine.shutil, "disk_usage", lambda _path: Usage(0, 0, megabytes * 1_000_000))
        found = engine(known={f"replication-lab/{name}": image for name, image in known.items()})
        monkeypatch.setattr(base_image, "make", lambda: found.known.update({"replication-lab/base": Image()}))
        return commands

    return on


def test_only_what_is_missing_is_built(built, folder):
    """A current image is not built again; the base comes first and only when it is not there."""
    commands = built(load=Image({images.RECIPE: bake_file.digest("load")}))
    images.ensure(["load"])
    assert commands == [] and not images.is_present("replication-lab/base")
    images.ensure(["mariadb", "load"])

    assert [command[-1] for command in commands] == ["mariadb"]
    assert images.is_present("replication-lab/base")


def test_too_little_disk_is_refused_before_anything_is_built(built, refused):
    """What is free, where, and what is needed for which images."""
    commands = built(megabytes=1_000)
    error = refused(images.ensure, ["mariadb", "load"])

    needed = sum(images.megabytes()[name] for name in ("base", "load", "mariadb"))
    assert "1000 MB free on the disk of /" in error.found
    assert error.expected == f"{needed} MB to build base, mariadb, load"
    assert not commands


def test_a_server_of_others_needs_no_image_of_ours():
    """Only Toxiproxy and the load's image are built then."""
    assert up.image_names("mariadb", load=True) == ["mariadb", "toxiproxy", "load"]
    assert up.image_names("mysql:8.4", load=True) == ["toxiproxy", "load"]


def test_a_topology_without_links_needs_no_proxy():
    """One server alone: its image, and the load's where there is one."""
    single = catalogue.topology("single")

    assert up.image_names("mysql-5.7", topology=single) == ["mysql-5.7"]
    assert up.image_names("mysql-5.7", load=True, topology=single) == ["mysql-5.7", "load"]


def test_a_failed_build_shows_its_end(built, refused):
    """The last lines of the builder, and the images that were asked for."""
    built(Build(1, [f"step {n}\n" for n in range(100)]), base=Image())
    error = refused(images.ensure, ["load"])

    assert "building load failed" in error.found
    assert "step 99" in error.found and "step 50" not in error.found


def test_a_build_is_labelled_with_its_recipe_and_handed_the_companys_authority(built, monkeypatch):
    """The recipe as a label, the CA bundle as a secret that is never stored, the target without its dot."""
    monkeypatch.setattr(images, "CA_BUNDLES", ("/missing", __file__))
    commands = built(base=Image())
    images.ensure(["mysql-8.0"])

    assert commands[0][-1] == "mysql-8_0"
    assert f"*.secrets=id=ca,src={__file__}" in commands[0]
    assert f"mysql-8_0.labels.{images.RECIPE}={bake_file.digest('mysql-8.0')}" in commands[0]


def test_a_build_that_is_stopped_ends_its_builder(built):
    """Ctrl-C and SIGTERM do not wait for minutes of building, and leave no builder running."""

    def interrupted():
        yield "#1 [load 1/2] RUN something\n"
        raise KeyboardInterrupt

    ended = []
    build: Any = Build(0, interrupted())
    build.terminate = lambda: ended.append(True)
    built(build, base=Image())
    with pytest.raises(KeyboardInterrupt):
        images.ensure(["load"])

    assert ended


def test_removing_images_takes_only_those_of_the_lab(engine):
    """Images of other projects stay."""
    known = {name: Image(tags=[name]) for name in ("replication-lab/load", "postgres:17")}
    found = engine(known=known)

    assert images.remove_all() == ["replication-lab/load"]
    assert list(found.known) == ["postgres:17"]


@pytest.fixture
def docker(monkeypatch):
    """Return the commands of Docker that are typed; give it those that fail, by their first word."""

    def with_failing(*failing, listed=""):
        typed = []

        def run(command, **_):
            typed.append(" ".join(command))
            return SimpleNamespace(returncode=int(command[1] in failing), stdout=listed, stderr="")

        monkeypatch.setattr(base_image.subprocess, "run", run)
        return typed

    return with_failing


def test_the_base_is_pulled_if_a_registry_answers(docker, monkeypatch):
    """Nothing is made then, and nothing installed."""
    typed = docker()
    monkeypatch.setattr(base_image.subprocess, "Popen", lambda *_, **__: pytest.fail("made"))
    base_image.make()

    assert typed == ["docker pull --quiet debian:trixie-slim", "docker tag debian:trixie-slim replication-lab/base"]


def test_a_base_that_cannot_be_made_is_told_with_the_last_lines(docker, monkeypatch, refused):
    """Those of mmdebstrap."""
    docker("pull")
    making = SimpleNamespace(stdout=None, stderr=io.BytesIO(b"E: no mirror"), returncode=1)
    monkeypatch.setattr(base_image.subprocess, "Popen", lambda *_, **__: contextlib.nullcontext(making))
    monkeypatch.setattr(base_image.shutil, "which", lambda name: name)

    assert refused(base_image.make).found == "building the base image failed:\n  E: no mirror"


def test_installing_mmdebstrap_is_announced_or_refused(docker, monkeypatch, refused):
    """No registry, no mmdebstrap and LAB_INSTALL=no: the command to type."""
    docker("pull")
    monkeypatch.setattr(base_image.shutil, "which", lambda name, **_: None if name == "mmdebstrap" else name)
    monkeypatch.setenv("LAB_INSTALL", "no")

    assert "mmdebstrap" in refused(base_image.make).next_step


@pytest.mark.parametrize(
    ("failing", "listed", "first"), [((), "", True), ((), "0123\n", False), (("image",), "", False)]
)
def test_the_first_image_is_told_from_others(docker, failing, listed, first):
    """An engine that does not tell is asked again later, by a command that says why."""
    docker(*failing, listed=listed)

    assert base_image.is_first() == first


def test_a_lab_is_refused_before_the_engine_is_touched(monkeypatch):
    """Bad names cost nothing: neither an engine nor an image is asked for."""
    monkeypatch.setattr(docker_engine, "ensure", lambda: pytest.fail("the engine was touched"))
    for topology, *rest in (
        ("semisink", "mariadb", "lab-semisink"),
        ("semisync", "mariadbb", "lab-semisync"),
        ("semisync", "mysql-5.7", "lab-semisync"),
        ("semisync", "oracle:19", "lab-semisync"),
        ("drbd", "mysql:8.4", "lab-drbd"),
        ("semisync", "mariadb", "lab Semisync"),
        ("semisync", "mariadb", "lab-semisync", {}, {"leaf": Storage(level="raid0")}),
        ("semisync", "mariadb", "lab-semisync", {"source-replica": "wan-86ms"}),
        ("semisync", "mariadb", "lab-semisync", {"source-leaf": "wan-85ms"}),
    ):
        with pytest.raises(LabError):
            up.up(LabRequest(catalogue.topology(topology), *rest))


def test_sweeping_after_arrays_asks_no_registry_where_there_never_was_one(engine):
    """The engine would look for an image that it has not; on a machine without the array's there is nothing to undo."""
    engine()

    assert array.sweep([]) == array.left_in_dev([]) == []


def test_what_arrays_left_is_listed_without_the_right_to_change_it(monkeypatch):
    """Without warnings and what belongs to a lab that exists; the container may only read, and has no capability."""
    asked = {}

    def create(_image, _command, **options):
        asked.update(options)
        said = (
            b"losetup: /dev/loop9: No such device\nloop device of run-a\nlinks in /dev of run-a\nloop device of run-b\n"
        )
        ended = SimpleNamespace(start=lambda: None, remove=lambda **_: None, wait=lambda: {"StatusCode": 0})
        return SimpleNamespace(**vars(ended), logs=lambda **_: said)

    client = SimpleNamespace(containers=SimpleNamespace(create=create))
    monkeypatch.setattr(array.images, "is_present", lambda _image: True)
    monkeypatch.setattr(array.images.engine, "client", lambda: client)

    assert array.left_in_dev(["run-b"]) == ["loop device of run-a", "links in /dev of run-a"]
    assert asked["volumes"]["/dev"]["mode"] == "ro" and asked["cap_drop"] == ["ALL"] and "cap_add" not in asked
    assert asked["device_cgroup_rules"] == ["b 7:* r"]
