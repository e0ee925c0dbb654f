"""The sources of an image: its target in docker-bake.hcl, the targets that it uses, and all their folders.

Read here, and not by `docker buildx bake --print`, which takes 0.08 s at each start of a lab and needs Docker where
only a name is printed; tests/images/test_building.py compares the two.
"""

import hashlib
import re

from replication_lab.world import catalogue

# The label of an image that holds the digest of its recipe.
RECIPE = "replication-lab.recipe"
_TARGET = re.compile(r'^target "([^"]+)" (\{.*?^\})', re.S | re.M)
_MATRIX = re.compile(r"^  matrix = \{\n    engine = \[(.*?)\]\n  \}\n", re.S | re.M)
# "target:NAME" of contexts, "_NAME" of inherits.
_TAKEN = re.compile(r'"(?:target:|(?=_))([^"]+)"')
_FOLDER = re.compile(r'"(images/[^"]+)"')


def target(name: str) -> str:
    """Return the bake target of an image: HCL allows no dot in a name."""
    return name.replace(".", "-")


def targets() -> dict[str, str]:
    """Return the block of each target in docker-bake.hcl, by name; a matrix gives a target for each of its engines."""
    found = _TARGET.findall((catalogue.IMAGES / "docker-bake.hcl").read_text())
    return dict(each for name, block in found for each in _expanded(name, block))


def _expanded(name: str, block: str) -> list[tuple[str, str]]:
    matrix = _MATRIX.search(block)
    if not matrix:
        return [(name, block)]
    block = block.replace(matrix[0], "")
    return [(target(engine), block.replace("${engine}", engine)) for engine in re.findall(r'"([^"]+)"', matrix[1])]


def targets_of(name: str) -> dict[str, str]:
    """Return the targets that go into an image: its own, and those that it uses or inherits, directly or indirectly."""
    known, found, left = targets(), {}, [target(name)]
    while left:
        each = left.pop()
        if each not in found:
            found[each] = known[each]
            left += _TAKEN.findall(known[each])
    return found


def images_of(name: str) -> list[str]:
    """Return the targets that are built and tagged along with an image, its own among them."""
    return sorted(each for each in targets_of(name) if not each.startswith("_"))


def folders_of(name: str) -> set[str]:
    """Return the folders that go into an image, such as images/database."""
    return {folder for block in targets_of(name).values() for folder in _FOLDER.findall(block)}


def digest(name: str) -> str:
    """Return a digest of all that goes into an image: the text of its targets, and every file of their folders."""
    blocks = sorted(targets_of(name).items())
    folders = [catalogue.IMAGES.parent / folder for folder in folders_of(name)]
    found = hashlib.sha256(repr(blocks).encode())
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        found.update(path.relative_to(catalogue.IMAGES).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def tag(name: str, processor: str) -> str:
    """Return what tells an image from one of another recipe or for another processor."""
    return f"{digest(name)}-{processor}"
