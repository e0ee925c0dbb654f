"""Do the commands for images choose the right ones, and a key that changes when an image does?"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.lab import stock
from replication_lab.model.core.errors import LabError
from replication_lab.world import host
from replication_lab.world.docker import archives, bake_file, images, registry
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab

from tests.fakes.docker_engine import Image


def lab(*arguments):
    ended = CliRunner().invoke(cli.cli, ["images", *arguments], prog_name="lab")
    if isinstance(ended.exception, LabError):
        raise ended.exception
    return ended.stdout.strip()


@pytest.mark.parametrize(
    ("engines", "topologies", "names"),
    [
        ((), (), ["mariadb", "toxiproxy", "load"]),
        (("mysql-8.0", "mysql-5.5"), (), ["mysql-8.0", "toxiproxy", "load", "mysql-5.5"]),
        (("mysql:8.4",), (), ["toxiproxy", "load"]),
        ((), ("galera",), ["mariadb", "toxiproxy", "sidecar", "load"]),
        ((), ("group",), ["mysql-8.0", "toxiproxy", "sidecar", "load"]),
        ((), ("drbd",), ["mariadb", "toxiproxy", "vm", "spindle", "load"]),
    ],
)
def test_only_the_images_that_are_needed_are_chosen(engines, topologies, names):
    """An engine, the proxy and the load; more where a topology needs more; a vendor's image is none of them."""
    assert set(stock.needed(engines, topologies)) == set(names)


@pytest.mark.parametrize(
    ("engines", "topologies", "found"),
    [(("marydb",), (), "marydb"), ((), ("galeera",), "galeera")],
)
def test_unknown_names_are_refused(engines, topologies, found, refused):
    """Before an image is built."""
    assert found in refused(stock.needed, engines, topologies).found


def test_an_experiment_needs_its_own_engines_and_topologies():
    """Those that it compares by default, unless others are named."""
    from replication_lab.cli.images import needed

    assert set(needed([], [], "galera_vs_semisync")) == {"mariadb", "toxiproxy", "load", "sidecar"}
    assert set(needed(["mysql-8.0"], [], "semisync_wan")) == {"mysql-8.0", "toxiproxy", "load"}
    assert {"mysql-5.5", "mariadb-10.1"} <= set(needed(["all"], [], None))


def test_the_key_needs_no_docker_and_changes_with_a_recipe_and_the_processor(monkeypatch):
    """The same for the same files, whatever the order of the engines."""
    first = lab("key", "mariadb", "mysql-8.0")

    assert first == lab("key", "mysql-8.0", "mariadb") != lab("key", "mariadb")
    assert json.loads(lab("key", "mariadb", "--json"))["key"] == lab("key")
    monkeypatch.setattr(host.platform, "machine", lambda: "aarch64")
    other = lab("key", "mariadb", "mysql-8.0")
    assert other.startswith("replication-lab-arm64-") and other != first
    monkeypatch.setattr(bake_file, "digest", lambda name: "0" * 16)
    assert lab("key", "mariadb", "mysql-8.0") != other


@pytest.mark.parametrize("prefix", ["https://registry.example/lab", "Registry.example/Lab", "a b", "registry.example/"])
def test_a_prefix_that_docker_would_not_take_is_refused(prefix, monkeypatch, refused):
    """A trailing slash is no mistake."""
    monkeypatch.setenv(registry.VARIABLE, prefix)
    if prefix.endswith("/"):
        assert registry.prefix() == "registry.example"
    else:
        assert "without https://" in refused(registry.prefix).expected


def test_without_the_variable_no_registry_is_asked(engine, monkeypatch):
    """LAB_IMAGES is unset: images are built, as ever."""
    monkeypatch.delenv(registry.VARIABLE, raising=False)
    built = []
    monkeypatch.setattr(images, "_build", built.extend)
    monkeypatch.setattr(registry, "fetched", lambda name: pytest.fail("a registry was asked"))
    engine()
    images.ensure(["load"])

    assert built == ["load"]


def test_the_digest_of_the_list_is_printed_last(monkeypatch):
    """After the files; with --json it has a name."""
    done = archives.Saved(["kept/load.tar"], "kept/images.json", "ab" * 32)
    monkeypatch.setattr(stock, "save", lambda *_: done)

    assert lab("save", "kept").splitlines() == ["kept/load.tar", "kept/images.json", f"SHA-256 {'ab' * 32}"]
    assert json.loads(lab("save", "kept", "--json"))["sha256"] == "ab" * 32


@pytest.fixture
def pulled(engine, monkeypatch, tmp_path):
    """Pull the image `load` with these lines in the file of digests; return the result and what was asked for."""

    def pull(lines):
        (tmp_path / "digests").write_text(lines)
        monkeypatch.setenv(registry.VARIABLE, "registry.example/lab")
        monkeypatch.setenv(registry.DIGESTS, str(tmp_path / "digests"))
        asked, known = [], engine()
        known.pull = lambda *words: (
            asked.append(words) or Image({images.RECIPE: bake_file.digest("load")}, engine=known)
        )
        return registry.fetched("load"), asked

    return pull


def test_with_a_file_of_digests_an_image_is_pulled_by_its_digest(pulled):
    """And not by the tag, which may lead to another one by now."""
    digest = f"sha256:{'a' * 64}"
    line = f"registry.example/lab/load:{bake_file.tag('load', 'amd64')}@{digest}\n"
    other = line.replace("load:", "mariadb:").replace("a" * 64, "b" * 64)
    found, asked = pulled(other + line)

    assert isinstance(found, Image) and asked == [("registry.example/lab/load", digest)]
    assert docker_engine.client().get(line.partition("@")[0]) is found


@pytest.mark.parametrize("digest", ["", "@", "@sha256:abc", f"@sha512:{'a' * 64}"])
def test_an_image_without_a_digest_in_the_file_is_not_pulled(pulled, digest):
    """It is built; nothing is asked of the registry."""
    found, asked = pulled(f"registry.example/lab/load:{bake_file.tag('load', 'amd64')}{digest}\n")

    assert "has no digest of registry.example/lab/load:" in found and asked == []


def test_a_file_of_digests_that_is_missing_is_refused(engine, monkeypatch, refused):
    """It must not mean that any image will do."""
    engine()
    monkeypatch.setenv(registry.VARIABLE, "registry.example/lab")
    monkeypatch.setenv(registry.DIGESTS, "/nowhere/digests")

    assert "/nowhere/digests, which cannot be read" in refused(registry.fetched, "load").found


def test_an_image_for_another_processor_is_not_current(engine):
    """A cache of another machine cannot be mistaken for one of this machine."""
    found = Image({images.RECIPE: bake_file.digest("load")})
    engine(known={"replication-lab/load": found})
    assert images.is_current("load")
    found.attrs["Architecture"] = "another"

    assert not images.is_current("load")


def test_a_folder_without_archives_is_refused(tmp_path, engine, refused):
    """Nothing was loaded, and that is said."""
    engine()
    (tmp_path / "notes.tar").write_text("")

    assert "has no archive" in refused(archives.load, tmp_path, pytest.fail).found


def test_an_archive_of_an_image_that_is_unknown_is_named(tmp_path, engine):
    """Of a version that had another image; nothing of it reaches the engine."""
    engine()
    (tmp_path / f"gone-{'0' * 16}-amd64.tar").write_text("")
    said: list[str] = []

    assert archives.load(tmp_path, said.append) == [] and "gone" in said[0]


def test_pulled_names_are_removed_with_the_lab_s_images(engine):
    """The name in the registry too, and no other name that the user gave."""
    recipe = bake_file.digest("load")
    tags = ["replication-lab/load:latest", f"registry.example/lab/load:{recipe}-amd64", "mine/load:1"]
    engine(known={tag: Image({images.RECIPE: recipe}, [tag]) for tag in tags})

    assert images.all_tags() == sorted(tags[:2])


def test_the_engine_s_processor_is_asked_and_the_machine_s_is_used_without_an_answer(engine, monkeypatch):
    """Docker Desktop runs its engine on a machine of its own."""
    known = engine()
    monkeypatch.setattr(host.platform, "machine", lambda: "x86_64")
    assert docker_engine.processor() == "amd64"
    docker_engine.client.cache_clear()
    known.version = lambda: {"Version": "26.1.5", "Arch": "arm64"}

    assert docker_engine.processor() == "arm64"


def test_every_command_for_images_refuses_a_typing_error():
    """With the engine that was meant."""
    for command in ("build", "key"):
        with pytest.raises(LabError, match="did you mean mariadb"):
            lab(command, "maria-db")
    with pytest.raises(LabError, match="did you mean mariadb"):
        lab("save", "folder", "maria-db")
    assert not Path("folder").exists()


def test_a_run_knows_which_registry_its_images_came_from(engine):
    """By a service that runs the image; an image that was built here has no such name."""
    pulled, built = Image(), Image()
    pulled.attrs["RepoDigests"] = ["registry.example/lab/mariadb@sha256:1"]
    engine(known={"sha256:1": pulled, "sha256:2": built})
    services = {"load": "sha256:2", "replica": "sha256:1", "source": "sha256:1"}
    lab = SimpleNamespace(image_digests=lambda: services)

    assert Lab.image_origins(lab) == {"replica": "registry.example/lab/mariadb@sha256:1"}


def test_an_image_that_the_engine_does_not_give_is_one_error(tmp_path, engine, refused):
    """Saving an image that is not there, or from an engine that breaks off, ends with the engine's words."""
    engine()

    assert "an image cannot be read" in refused(archives.save, tmp_path, ["load"]).found
