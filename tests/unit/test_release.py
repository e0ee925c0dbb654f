"""Do the scripts of a release build, check and publish what belongs together, and stop at what does not?

The lab, Docker and GitHub's command are stand-ins here, which write down how they were called. The wheel and the sdist
are the real ones. tests/images/test_registry.py pulls images by such a file of digests.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig

import msgspec
import pytest
import replication_lab
from replication_lab.world import catalogue, folders
from replication_lab.world.docker import registry

from tests.workflow import Job

pytestmark = pytest.mark.whole
ROOT = folders.CHECKOUT
FILE = ROOT / ".github" / "workflows" / "release.yml"
CHECK, IMAGES, PACKAGE, SITE = (Job(FILE, name) for name in ("check", "images", "package", "site"))
LISTED = ("git", "-C", str(ROOT), "ls-files", "-z")
VERSION = replication_lab.VERSION
PREFIX = "ghcr.io/someone/replication-lab"
DIGESTS = {"mariadb": "a" * 64, "toxiproxy": "b" * 64}
PUSHED = "".join(f"{PREFIX}/{name}:0123456789abcdef-amd64@sha256:{digest}\n" for name, digest in DIGESTS.items())
# All stand-ins write down their words. The proxy's image has no packages, and the folder of its programs is empty.
LAB = f"""#!/bin/bash
{{ printf '<%s>' "$@"; echo "$LAB_IMAGES"; }} >>calls
[ "$1" != --version ] || echo "lab {VERSION}"
[ "$1" != images ] || printf '%s' '{PUSHED}'
"""
DOCKER = """#!/bin/bash
printf '<%s>' docker "$@" >>calls; echo >>calls
case $1 in
  login) cat >password ;;
  run)
    [[ $* != *toxiproxy* ]] || exit 127
    [ -n "${EMPTY:-}" ] || printf 'bash\\t5.2.37-2\\nmariadb-server\\t1:11.8.3-0+deb13u1\\n' ;;
  create) echo container ;;
  export) tar -c -T /dev/null ;;
esac
"""
GO = "#!/bin/bash\nprintf '\\tmod\\tgithub.com/Shopify/toxiproxy/v2\\tv2.12.0\\n\\tdep\\tgithub.com/x/y\\tv1.0.0\\n'\n"
GH = "#!/bin/bash\nprintf '<%s>' gh \"$@\" >>calls; echo >>calls\n"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """Return a folder with the stand-ins, first in the search path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in {"docker": DOCKER, "go": GO, "gh": GH}.items():
        (folder / name).write_text(text)
    (tmp_path / "lab").write_text(LAB)
    for path in (*folder.iterdir(), tmp_path / "lab"):
        path.chmod(0o755)
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## [{VERSION}] - 2026-01-01\n\n- One.\n\n## [0.0.1]\n\n- Old.\n"
    )
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def calls(workspace) -> list[str]:
    return (workspace / "calls").read_text().splitlines()


# --- the tag ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "heading", "told"),
    [
        (f"v{VERSION}", VERSION, ""),
        ("v9.9.9", VERSION, f"the tag is v9.9.9, and the version {VERSION}"),
        (f"v{VERSION}", "9.9.9", f"CHANGELOG.md has no section [{VERSION}]"),
    ],
)
def test_a_tag_is_that_of_the_version_and_of_a_section(workspace, tag, heading, told):
    """Otherwise nothing else begins: the other jobs need this one."""
    (workspace / "CHANGELOG.md").write_text(f"## [{heading}] - 2026-01-01\n")
    ended = CHECK.run(workspace, {"github.ref_name": tag})

    assert (ended.code, told in ended.printed) == (int(bool(told)), True)
    assert ended.outputs["tag"].get("version") == (None if told else VERSION)
    assert IMAGES.found["needs"] == "check" and PACKAGE.found["needs"] == ["check", "images"]
    assert SITE.found["needs"] == "package"


# --- the images -------------------------------------------------------------------------------------------------------


def of_images(workspace, **environment):
    row = IMAGES.found["strategy"]["matrix"]["include"][0]
    known = {f"matrix.{name}": value for name, value in row.items()}
    known |= {"github.actor": "someone", "github.token": "secret", "github.repository_owner": "SomeOne"}
    return IMAGES.run(workspace, known, **environment)


def test_images_are_built_here_pushed_and_kept_with_their_digests(workspace):
    """For the owner, in lower case as a registry wants it; the password is in no argument."""
    ended = of_images(workspace)

    assert ended.code == 0, ended.printed
    build = next(call for call in calls(workspace) if call.startswith("<images>"))
    assert build.startswith("<images><build><mariadb>") and build.endswith(f"<--push><{PREFIX}>none")
    assert "<--topology><galera>" in build
    assert (workspace / "release" / "images-amd64.digests").read_text() == PUSHED
    assert (workspace / "password").read_text() == "secret\n" and "secret" not in "".join(calls(workspace))
    assert ended.used["actions/upload-artifact@v4"] == {"name": "images-amd64", "path": "release/"}


def test_each_image_has_a_list_of_its_contents(workspace):
    """Of Debian's packages, or of the modules that a program was built of; by the image's own digest."""
    assert of_images(workspace).code == 0
    server, proxy = (
        json.loads((workspace / "release" / f"sbom-{each}-amd64.spdx.json").read_text()) for each in DIGESTS
    )

    assert server["packages"][0]["checksums"] == [{"algorithm": "SHA256", "checksumValue": DIGESTS["mariadb"]}]
    named = {each["name"]: each["externalRefs"][0]["referenceLocator"] for each in server["packages"][1:]}
    assert named["mariadb-server"] == "pkg:deb/debian/mariadb-server@1%3A11.8.3-0%2Bdeb13u1"
    assert [each["name"] for each in proxy["packages"][1:]] == ["github.com/Shopify/toxiproxy/v2", "github.com/x/y"]
    contained = [
        each["relatedSpdxElement"] for each in proxy["relationships"] if each["relationshipType"] == "CONTAINS"
    ]
    assert contained == ["SPDXRef-1", "SPDXRef-2"]


def test_an_image_of_unknown_contents_ends_the_release(workspace):
    """A list that is empty would look like one."""
    ended = of_images(workspace, EMPTY="yes")

    assert ended.code == 1 and "nothing is known of the contents of" in ended.printed


def test_the_images_and_their_contents_are_attested(workspace):
    """By their digests, in the form that the action reads."""
    ended = of_images(workspace)
    subjects = dict(line.split("  ")[::-1] for line in (workspace / "subjects.txt").read_text().splitlines())

    assert ended.used["actions/attest-build-provenance@v3"] == {"subject-checksums": "subjects.txt"}
    assert subjects[f"{PREFIX}/mariadb:0123456789abcdef-amd64"] == DIGESTS["mariadb"]
    assert {"sbom-mariadb-amd64.spdx.json", "sbom-toxiproxy-amd64.spdx.json"} <= subjects.keys()


def test_the_engines_of_a_processor_are_those_that_can_be_built_for_it():
    """Not one that is only the vendor's, and not one whose packages change without the recipe."""
    floating = {"mysql"}
    able = {name: each for name, each in catalogue.engines().items() if not each.image and name not in floating}
    for row in IMAGES.found["strategy"]["matrix"]["include"]:
        wanted = {name for name, each in able.items() if not each.processors or row["processor"] in each.processors}

        assert set(row["engines"].split()) == wanted
        assert set(row["topologies"].split()) <= set(catalogue.topologies())


# --- the package ------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(workspace):
    """Return the workspace with the project in it, as it is checked out, and with the images' digests."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if not name.startswith(("tests/records/", "docs/images/")) and (ROOT / name).is_file():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, workspace / name)
    (workspace / ".venv" / "bin").mkdir(parents=True)
    (workspace / ".venv" / "bin" / "python").symlink_to(sys.executable)
    # `make` has nothing to install: the environment is the one of these tests.
    for name in ("installed.txt", "developing.txt"):
        (workspace / ".venv" / name).touch()
    (workspace / "release").mkdir()
    for processor in ("amd64", "arm64"):
        text = PUSHED.replace("-amd64@", f"-{processor}@")
        (workspace / "release" / f"images-{processor}.digests").write_text(text)
    return workspace


STEPS = (
    "Put the digests of the images into the package",
    "Build the wheel and the sdist",
    "Check the wheel and the sdist",
)
KNOWN = {"needs.check.outputs.version": VERSION, "github.ref_name": f"v{VERSION}", "github.token": "secret"}


def offline() -> dict[str, str]:
    """Return variables with which pip installs a file here without a network; what it requires is these tests' own."""
    settings = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    return {**settings, "PYTHONPATH": sysconfig.get_path("purelib")}


@pytest.mark.long
def test_the_wheel_and_the_sdist_contain_the_digests_and_work(checkout):
    """Each is installed into an environment of its own; the digests of both processors are in one file."""
    ended = PACKAGE.run(checkout, KNOWN, STEPS, **offline())

    assert ended.code == 0, ended.printed
    assert {path.name for path in (checkout / "release").iterdir()} == {
        f"replication_lab-{VERSION}-py3-none-any.whl",
        f"replication_lab-{VERSION}.tar.gz",
        "released.digests",
    }
    assert len((checkout / "release" / "released.digests").read_text().splitlines()) == 4


@pytest.mark.long
def test_a_wheel_without_the_digests_is_not_released(checkout):
    """Sabotage: the file is lost between the steps."""
    PACKAGE.run(checkout, KNOWN, STEPS[:1])
    kept = (checkout / "images" / "released.digests").read_bytes()
    (checkout / "images" / "released.digests").unlink()
    assert PACKAGE.run(checkout, KNOWN, STEPS[1:2], **offline()).code == 0
    (checkout / "images" / "released.digests").write_bytes(kept)
    ended = PACKAGE.run(checkout, KNOWN, STEPS[2:], **offline())

    assert ended.code == 1 and "does not contain the digests of the images" in ended.printed


def test_a_processor_without_images_ends_the_release(workspace):
    """A first start there would find nothing to pull."""
    (workspace / "release").mkdir()
    (workspace / "images").mkdir()
    (workspace / "release" / "images-amd64.digests").write_text(PUSHED)
    ended = PACKAGE.run(workspace, KNOWN, STEPS[:1])

    assert ended.code == 1 and "there is no image for arm64" in ended.printed


def test_a_release_has_its_section_of_the_changelog_and_its_files(workspace):
    """The notes are the version's own; the tag exists already."""
    (workspace / "release").mkdir()
    (workspace / "release" / "released.digests").touch()
    ended = PACKAGE.run(workspace, KNOWN, ["Publish the release"])

    assert ended.code == 0, ended.printed
    assert (workspace / "notes.tmp").read_text().strip() == "- One."
    made = f"<gh><release><create><v{VERSION}><--verify-tag><--title><v{VERSION}><--notes-file><notes.tmp>"
    assert calls(workspace) == [f"{made}<release/released.digests>"]


def test_the_site_is_what_make_docs_builds(workspace):
    """Into the folder that is uploaded."""
    (workspace / "Makefile").write_text("docs:\n\t@mkdir site\n")
    ended = SITE.run(workspace, {})

    assert ended.code == 0 and (workspace / ended.used["actions/upload-pages-artifact@v3"]["path"]).is_dir()
    assert msgspec.yaml.decode((ROOT / "mkdocs.yml").read_bytes())["site_dir"] == "site"


def test_a_job_may_write_only_what_it_publishes():
    """The default is to read; a token of an image job cannot make a release."""
    found = msgspec.yaml.decode(FILE.read_bytes())
    writes = {
        name: {what for what, how in job.get("permissions", {}).items() if how == "write"}
        for name, job in found["jobs"].items()
    }

    assert found["permissions"] == {"contents": "read"}
    assert writes == {
        "check": set(),
        "images": {"packages", "id-token", "attestations"},
        "package": {"contents", "id-token", "attestations"},
        "site": {"pages", "id-token"},
    }


# --- what a release pulls ---------------------------------------------------------------------------------------------


@pytest.fixture
def released(tmp_path, monkeypatch):
    """Let the lab be a release with these images."""
    file = tmp_path / "released.digests"
    file.write_text(PUSHED)
    monkeypatch.setattr(registry.base_image, "RELEASED", file)
    for name in (registry.VARIABLE, registry.DIGESTS):
        monkeypatch.delenv(name, raising=False)
    return file


@pytest.mark.parametrize(
    ("variable", "prefix", "digests"),
    [("", PREFIX, True), ("none", "", False), ("registry.example/lab", "registry.example/lab", False)],
)
def test_a_release_pulls_its_own_images_unless_told_otherwise(released, monkeypatch, variable, prefix, digests):
    """By their digests; your own registry, or none, comes first."""
    monkeypatch.setenv(registry.VARIABLE, variable)

    assert registry.prefix() == prefix
    assert (registry._digests() == released) == digests


def test_a_checkout_that_is_no_release_builds(released, monkeypatch):
    """There is no file of digests in it."""
    released.unlink()

    assert registry.prefix() == "" and registry._digests() is None
    assert not (catalogue.IMAGES / "released.digests").exists()
