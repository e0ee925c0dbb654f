"""Is the machine left alone where it has an engine, and are images built only when and where they can be?"""

import contextlib
import os
from collections import namedtuple
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException, ImageNotFound
from replication_lab.lab import up
from replication_lab.model.errors import LabError
from replication_lab.model.lab_request import LabRequest
from replication_lab.model.storage import Storage
from replication_lab.world import catalogue
from replication_lab.world.disks import array
from replication_lab.world.docker import bake_file, images
from replication_lab.world.docker import engine as docker_engine

Usage = namedtuple("Usage", "total used free")
PERMISSION = DockerException(
    "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))"
)
NOBODY = DockerException("Error while fetching server API version: FileNotFoundError(2, 'No such file or directory')")
TRIXIE = Path(docker_engine.__file__).parent / "trixie-source.sh"
DEBIAN = "docker.io containerd docker-cli docker-compose docker-buildx"
INSTALL = "env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends"


class Image:
    def __init__(self, labels=None, tags=()):
        self.labels, self.tags = labels or {}, tags


class Engine:
    """A Docker engine as its client shows it: a version, and images by name."""

    def __init__(self, version="26.1.5+dfsg1", known=None):
        self._version, self.known, self.images = version, known or {}, self

    def version(self):
        return {"Version": self._version}

    def ping(self):
        return True

    def info(self):
        return {"DockerRootDir": "/nowhere/docker"}

    def get(self, name):
        if name not in self.known:
            raise ImageNotFound(name)
        return self.known[name]

    def list(self):
        return list(self.known.values())

    def remove(self, tag, force):
        del self.known[tag]


@pytest.fixture
def engine(monkeypatch):
    """Let an engine answer: `engine(version=…)`; or raise an error when it is looked for."""

    def answers(found=None, **parts):
        found = found or Engine(**parts)

        def look(**_options):
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(docker, "from_env", look)
        return found

    return answers


@pytest.fixture
def compose(monkeypatch):
    """Set the answer of `docker compose version`."""
    return lambda version: monkeypatch.setattr(docker_engine, "_run_quietly", lambda _command: version)


@pytest.fixture
def machine(monkeypatch):
    """Return a machine of this release without an engine, as the commands that would be run as root."""

    def of(id_, version):
        ran = []
        monkeypatch.setattr(docker_engine, "_release", lambda: {"ID": id_, "VERSION_ID": version})
        monkeypatch.setattr(docker_engine, "_installed", lambda: False)
        monkeypatch.setattr(docker_engine.shutil, "which", lambda name, **_: f"/usr/bin/{name}")
        monkeypatch.setattr(docker_engine, "run_as_root", lambda command: ran.append(" ".join(map(str, command))))
        monkeypatch.setattr(docker_engine, "_start", lambda: ran.append("start"))
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        return ran

    return of


# --- finding an engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["25.0.0", "26.1.5+dfsg1", "29.0.0-rc.1"])
def test_an_engine_that_is_new_enough_is_taken(engine, compose, version):
    """Distributions' suffixes and release candidates are versions too; the engine that answers is used as it is."""
    found = engine(version=version)
    compose("2.26.1-4")

    assert docker_engine.ensure() is found


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "24.0.7"])
def test_an_old_engine_is_refused_and_never_replaced(engine, refused, version):
    """Found, needed, and that upgrading is for its owner; nothing is installed."""
    engine(version=version)
    error = refused(docker_engine.ensure)

    assert error.found == f"the Docker engine is {version}"
    assert "25 or newer" in error.expected and "never replaces" in error.expected


@pytest.mark.parametrize(
    ("version", "found"), [("2.20.3", "docker compose is 2.20.3"), (None, "docker compose is not installed")]
)
def test_an_old_or_missing_compose_is_refused(engine, compose, refused, version, found):
    """The engine may be new while its Compose is not."""
    engine()
    compose(version)
    error = refused(docker_engine.ensure)

    assert error.found == found and "2.24 or newer" in error.expected


def test_no_permission_on_the_socket_is_told_apart_from_no_engine(engine, refused):
    """An engine that may not be asked is there: nothing is started, and the error names the group."""
    engine(PERMISSION)
    error = refused(docker_engine.ensure)

    assert "permission denied" in error.found
    assert "usermod -aG docker" in error.next_step


def test_commands_that_only_look_never_start_an_engine(engine, refused):
    """`lab status` on a machine without an engine says so."""
    engine(NOBODY)
    error = refused(docker_engine.client)

    assert error.found == "the Docker engine does not answer"
    assert "./lab up" in error.next_step


def test_the_engine_of_the_users_context_is_used_and_nothing_installed(engine, monkeypatch, refused):
    """Docker Desktop and rootless Docker listen elsewhere; a context that does not answer is not replaced either."""
    engine(NOBODY)
    monkeypatch.setenv("DOCKER_HOST", "to be restored")
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setattr(docker_engine, "_run_quietly", lambda command: "unix:///run/user/1000/docker.sock")

    assert refused(docker_engine.ensure).found == "the Docker engine does not answer"
    assert os.environ["DOCKER_HOST"] == "unix:///run/user/1000/docker.sock"


def test_somebody_elses_engine_is_never_started(engine, refused, monkeypatch):
    """DOCKER_HOST names an engine elsewhere; where it does not answer, nothing is installed here."""
    engine(NOBODY)
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")

    assert refused(docker_engine.ensure).found == "the Docker engine does not answer"


# --- installing one ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "commands"),
    [
        (
            ("debian", "12"),
            [
                f"sh {TRIXIE} {docker_engine.TRIXIE_SOURCE} {docker_engine.TRIXIE_PIN}",
                "apt-get update -q",
                f"{INSTALL} {' '.join(f'{name}/trixie' for name in DEBIAN.split())} iptables",
            ],
        ),
        (("debian", "13"), ["apt-get update -q", f"{INSTALL} {DEBIAN} iptables"]),
        (("ubuntu", "24.04"), ["apt-get update -q", f"{INSTALL} docker.io docker-compose-v2 docker-buildx"]),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, tuple) else None,
)
def test_a_machine_without_an_engine_gets_its_distributions(
    engine, machine, refused, monkeypatch, capsys, release, commands
):
    """The commands fit the release; LAB_INSTALL=no lists the very same ones and runs none."""
    engine(NOBODY)
    ran = machine(*release)
    monkeypatch.setenv("LAB_INSTALL", "no")
    told = refused(docker_engine.ensure)
    assert told.next_step.splitlines()[1:] == [f"  {command}" for command in commands] and not ran

    monkeypatch.delenv("LAB_INSTALL")
    refused(docker_engine.ensure)  # the engine of this test never answers, so starting it comes to nothing
    assert ran == [*commands, "start"]
    assert capsys.readouterr().err.count("\n") == 1, "one line says what is installed and why"


def test_others_than_root_are_told_to_use_sudo(monkeypatch, refused):
    """The commands listed can be typed as they stand."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("LAB_INSTALL", "no")

    assert "  sudo apt-get update" in refused(docker_engine.allow_install, "it", [["apt-get", "update"]]).next_step


def test_an_engine_that_answers_is_never_installed_over(engine, compose, monkeypatch):
    """No path leads to an installation while something answers on the socket."""
    engine()
    compose("2.26.1")
    monkeypatch.setattr(docker_engine, "_install", lambda: pytest.fail("installed over a running engine"))
    monkeypatch.setattr(docker_engine, "_start", lambda: pytest.fail("started beside a running engine"))

    docker_engine.ensure()


def test_an_installed_engine_is_started_and_not_installed(engine, machine, monkeypatch, refused):
    """dockerd and Compose are installed, and no engine answers: only the start is tried."""
    engine(NOBODY)
    ran = machine("debian", "13")
    monkeypatch.setattr(docker_engine, "_installed", lambda: True)
    refused(docker_engine.ensure)

    assert ran == ["start"]


def test_a_machine_without_apt_is_told_what_is_needed(engine, machine, monkeypatch, refused):
    """No guess at other packagers."""
    engine(NOBODY)
    machine("fedora", "42")
    monkeypatch.setattr(docker_engine.shutil, "which", lambda *_, **__: None)

    assert "no apt" in refused(docker_engine.ensure).found


def test_the_source_for_debian_13_names_no_mirror():
    """The mirror is the machine's own, read from its apt configuration, and the suite is never preferred."""
    script = TRIXIE.read_text()

    assert "apt-get --print-uris update" in script and "Pin-Priority: 100" in script
    assert "://" not in script


# --- images -----------------------------------------------------------------------------------------------------------


BAKE = """
target "_database" {
  contexts = { database = "images/database" }
}
target "mariadb" {
  inherits = ["_database"]
  context  = "images/mariadb"
}
target "maven" {
  context = "images/maven"
}
target "old" {
  matrix = {
    engine = [
      "mysql-5.5", "mysql-8.0",
    ]
  }
  name     = replace(engine, ".", "-")
  inherits = ["_database"]
  context  = "images/${engine}"
  contexts = { maven = "target:maven" }
}
target "load" {
  context = "images/load"
}
"""


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """Return images/ of this test's own: three servers, their shared folders, and the bake file."""
    for name in ("mariadb", "maven", "mysql-5.5", "mysql-8.0", "database", "load"):
        path = tmp_path / "images" / name / "Dockerfile"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
    (tmp_path / "images" / "docker-bake.hcl").write_text(BAKE)
    monkeypatch.setattr(bake_file, "IMAGES", tmp_path / "images")
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
        ('"images/load"\n', '"images/load"\n  args = {}\n', {"load"}),
        ('"images/maven"\n', '"images/maven"\n  args = {}\n', {"mysql-5.5", "mysql-8.0"}),
        ('"target:maven" }\n', '"target:maven" }\n  args = {}\n', {"mysql-5.5", "mysql-8.0"}),
        ('"mysql-8.0",\n', '"mysql-8.0", "mysql-9.0",\n', set()),
        ('target "load"', 'target "_unused" {\n  args = {}\n}\ntarget "load"', set()),
    ],
)
def test_a_recipe_changes_with_the_targets_that_it_takes_from_only(folder, changed_by, old, new, images_of_it):
    """A target that is added for another image, in a matrix too, causes no rebuild."""
    bake = folder / "docker-bake.hcl"
    assert old in BAKE

    assert changed_by(lambda: bake.write_text(BAKE.replace(old, new))) == images_of_it


def test_a_recipe_changes_when_a_file_is_renamed(folder, changed_by):
    """Content alone is not enough: a file under another name is another build."""
    dockerfile = folder / "load" / "Dockerfile"

    assert changed_by(lambda: dockerfile.rename(folder / "load" / "Containerfile")) == {"load"}


def test_the_bake_files_own_targets_are_read_as_docker_reads_them():
    """Each of Maven's engines is built from its own folder, on a parent that all of them share."""
    from_archives = {name for name, each in catalogue.engines().items() if each.source.startswith("Maven")}

    assert len(from_archives) == 7
    for name in from_archives:
        assert bake_file.images_of(name) == sorted(["archived", "maven", bake_file.target(name)])
        assert f'"images/{name}"' in bake_file.targets()[bake_file.target(name)]


def test_an_image_is_current_while_its_recipe_is(engine, folder):
    """An image of another recipe, or none at all, is not."""
    known = engine().known
    assert not images.is_current("load")
    known["replication-lab/load"] = Image({images.RECIPE: bake_file.digest("load")})
    assert images.is_current("load")
    (folder / "load" / "Dockerfile").write_text("two")

    assert not images.is_current("load")


@pytest.fixture
def baked(monkeypatch):
    """Return what would have been built, given this many MB of free disk."""

    def with_free(megabytes):
        built = []
        monkeypatch.setattr(images, "_bake", built.extend)
        monkeypatch.setattr(images, "_make_base", lambda: built.append("base"))
        monkeypatch.setattr(images.shutil, "disk_usage", lambda _path: Usage(0, 0, megabytes * 1_000_000))
        return built

    return with_free


def test_only_what_is_missing_is_built(engine, folder, baked):
    """A current image is not built again; the base comes first and only when it is not there."""
    built = baked(100_000)
    known = engine(known={"replication-lab/load": Image({images.RECIPE: bake_file.digest("load")})}).known
    images.ensure(["mariadb", "load"])
    known["replication-lab/base"] = Image()
    images.ensure(["mariadb"])

    assert built == ["base", "mariadb", "mariadb"]


def test_too_little_disk_is_refused_before_anything_is_built(engine, folder, baked, refused):
    """What is free, where, and what is needed for which images."""
    built = baked(1_000)
    engine()
    error = refused(images.ensure, ["mariadb", "load"])

    needed = images.MEGABYTES["base"] + images.MEGABYTES["load"] + catalogue.engines()["mariadb"].megabytes
    assert "1000 MB free on the disk of /" in error.found
    assert error.expected == f"{needed} MB to build base, mariadb, load"
    assert not built


def test_a_typo_in_the_origin_of_images_is_refused(monkeypatch, refused):
    """LAB_IMAGES is local or upstream."""
    monkeypatch.setenv("LAB_IMAGES", "upstraem")
    error = refused(images.source)

    assert "LAB_IMAGES is 'upstraem'" in error.found and error.expected == "local or upstream"


def test_upstream_needs_no_image_of_ours_but_the_load(monkeypatch):
    """Servers and Toxiproxy come from their vendors then."""
    assert up.image_names("mariadb", load=True) == ["mariadb", "toxiproxy", "load"]
    monkeypatch.setenv("LAB_IMAGES", "upstream")

    assert up.image_names("mariadb", load=True) == ["load"]


def test_a_topology_without_links_needs_no_proxy():
    """One server alone: its image, and the load's where there is one."""
    single = catalogue.topology("single")

    assert up.image_names("mysql-5.7", topology=single) == ["mysql-5.7"]
    assert up.image_names("mysql-5.7", load=True, topology=single) == ["mysql-5.7", "load"]


class Build(contextlib.nullcontext):
    """A builder that has said its lines and ended."""

    def __init__(self, status, stderr):
        super().__init__(self)
        self.stderr, self.returncode = stderr, status


def test_a_failed_build_shows_its_end(engine, folder, monkeypatch, refused):
    """The last lines of the builder, and the images that were asked for."""
    engine()
    monkeypatch.setattr(images.subprocess, "Popen", lambda *_, **__: Build(1, [f"step {n}\n" for n in range(100)]))
    error = refused(images._bake, ["load"])

    assert "building load failed" in error.found
    assert "step 99" in error.found and "step 50" not in error.found


def test_a_build_is_labelled_with_its_recipe_and_handed_the_companys_authority(engine, folder, monkeypatch):
    """The recipe as a label, the CA bundle as a secret that is never stored, the target without its dot."""
    commands = []
    engine()
    monkeypatch.setattr(images.subprocess, "Popen", lambda command, **_: commands.append(command) or Build(0, []))
    monkeypatch.setattr(images, "CA_BUNDLES", ("/missing", __file__))
    images._bake(["mysql-8.0"])

    assert commands[0][-1] == "mysql-8-0"
    assert f"*.secrets=id=ca,src={__file__}" in commands[0]
    assert f"mysql-8-0.labels.{images.RECIPE}={bake_file.digest('mysql-8.0')}" in commands[0]


def test_a_build_that_is_stopped_ends_its_builder(engine, folder, monkeypatch):
    """Ctrl-C and SIGTERM do not wait for minutes of building, and leave no builder running."""

    def interrupted():
        yield "#1 [load 1/2] RUN something\n"
        raise KeyboardInterrupt

    engine()
    build, ended = Build(0, interrupted()), []
    build.terminate = lambda: ended.append(True)
    monkeypatch.setattr(images.subprocess, "Popen", lambda *_, **__: build)
    with pytest.raises(KeyboardInterrupt):
        images._bake(["load"])

    assert ended


def test_removing_images_takes_only_those_of_the_lab(engine):
    """Images of other projects stay."""
    known = {name: Image(tags=[name]) for name in ("replication-lab/load", "postgres:17")}
    found = engine(known=known)

    assert images.remove_all() == ["replication-lab/load"]
    assert list(found.known) == ["postgres:17"]


def test_installing_mmdebstrap_is_announced_or_refused(monkeypatch, refused):
    """No registry, no mmdebstrap and LAB_INSTALL=no: the command to type."""
    monkeypatch.setattr(images.shutil, "which", lambda name, **_: None if name == "mmdebstrap" else name)
    monkeypatch.setenv("LAB_INSTALL", "no")

    assert "mmdebstrap" in refused(images._bootstrap_base).next_step


def test_a_lab_is_refused_before_the_engine_is_touched(monkeypatch):
    """Bad names cost nothing: neither an engine nor an image is asked for."""
    monkeypatch.setattr(docker_engine, "ensure", lambda: pytest.fail("the engine was touched"))
    for topology, *rest in (
        ("semisink", "mariadb", "lab-semisink"),
        ("semisync", "mariadbb", "lab-semisync"),
        ("semisync", "percona", "lab-semisync"),
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

    assert array.sweep([]) == []
