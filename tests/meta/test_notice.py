"""Does NOTICE name every server, tool and library that an image asks for, with its licence?"""

import re
import tomllib

import pytest
from replication_lab.world import catalogue, folders

NOTICE = (catalogue.ROOT / "NOTICE").read_text()
# NAME: LICENCE; in IMAGE, IMAGE
LINE = re.compile(r"^- (\S+): (.+); in ([a-z0-9., -]+)$", re.M)
ENTRIES = {name: (licence, set(images.split(", "))) for name, licence, images in LINE.findall(NOTICE)}
DOCKERFILES = sorted(catalogue.IMAGES.glob("*/Dockerfile"))


def instructions(text: str) -> str:
    """Return a Dockerfile without comments, its continued lines joined."""
    return re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.M))


def packages(text: str) -> set[str]:
    """Return the packages that a Dockerfile asks apt for; a name that apt computes is its beginning."""
    found = re.findall(r"apt-get (?:install|download) (.*?)(?: && |\n|$)", instructions(text))
    computed = set(re.findall(r"apt-cache depends ([a-z0-9-]+)", text))
    words = {word for each in found for word in re.sub(r'"\$\(.*?\)"', "", each).split()}
    return {word.partition("/")[0] for word in words if re.fullmatch(r"[a-z0-9][a-z0-9+./-]+", word)} | computed


def artifacts(text: str) -> set[str]:
    """Return the archives that a Dockerfile fetches, by their coordinates."""
    return {":".join(each.split(":")[:3]) for each in re.findall(r"unpack-artifact (\S+:\S+)", text)}


def libraries(files: str) -> set[str]:
    """Return the libraries of others that are taken out of an archive along with the server."""
    return {each.partition(".")[0].partition("/")[0] for each in re.findall(r"^lib/private/(\S+)", files, re.M)}


def modules(text: str) -> set[str]:
    """Return the modules of go.mod, and those of programs that a Dockerfile installs by name."""
    return set(re.findall(r"^\s+(\S+\.\S+/\S+) v", text, re.M))


def wanted() -> dict[str, set[str]]:
    """Return what goes into images: its name, and the folders of images/ that ask for it."""
    found: dict[str, set[str]] = {}
    for path in DOCKERFILES:
        text, folder = path.read_text(), path.parent
        names = packages(text) | artifacts(text)
        for file, of in (("files.txt", libraries), ("go.mod", modules)):
            names |= of((folder / file).read_text()) if (folder / file).exists() else set()
        for name in names:
            found.setdefault(name, set()).add(folder.name)
    found.setdefault("mmdebstrap", set()).add("base")
    found.setdefault("ca-certificates", set()).add("base")
    return found


def test_everything_that_an_image_asks_for_is_named_and_nothing_else():
    """A package, an archive or a module that is added to images/ needs a line in NOTICE with its licence."""
    listed = {name: images for name, (_, images) in ENTRIES.items()}
    beyond = {name for name in listed if listed[name] == {"toxiproxy"} and name not in wanted()}

    assert {name: images for name, images in listed.items() if name not in beyond} == wanted()
    # Libraries of toxiproxy-cli, whose go.mod is not in this repository.
    assert all("." in name.partition("/")[0] for name in beyond)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_what_an_image_asks_for_is_found(path):
    """The reading above sees something in each Dockerfile that calls apt or fetches an archive."""
    text = path.read_text()

    assert bool(packages(text)) == ("apt-get install" in text)
    assert bool(artifacts(text)) == ("    unpack-artifact " in text)


def test_a_package_that_is_added_would_be_missed():
    """The guard sees a new name on its own line, in one line, and with a suite."""
    text = "RUN apt-get update -qq \\\n && apt-get install -y -qq one \\\n    two/forky three+four \\\n && true\n"

    assert packages(text) == {"one", "two", "three+four"}


def test_what_is_copied_into_the_package_is_named():
    """Files of others under assets/ come with their licence, which the wheel contains."""
    copied = sorted(path.parent.name for path in folders.PACKAGE.glob("assets/*/LICENSE"))
    project = tomllib.loads((catalogue.ROOT / "pyproject.toml").read_text())["project"]

    assert all(f"assets/{name}" in NOTICE for name in copied)
    assert project["license"] == "Apache-2.0"
    assert set(project["license-files"]) >= {"LICENSE", "NOTICE", "harness/replication_lab/assets/*/LICENSE"}
