"""Is what the package offers to others documented, complete, and cheap to import?"""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import replication_lab

KEPT = Path(__file__).with_name("public_names.txt")
PAGE = Path(__file__).parents[2] / "docs" / "api.md"
CONSUMER = Path(__file__).parents[1] / "consumer"
HEAVY = ("docker", "scipy", "numpy", "msgspec", "requests", "pymysql")


def parameters(name: str) -> list[str]:
    """Return a public name's parameters; the fields of a summary are in docs/summary.schema.json."""
    if name.endswith("Summary") or name in ("LabError", "Verdict"):
        return []
    return list(inspect.signature(getattr(replication_lab, name)).parameters)


def kept() -> dict[str, list[str]]:
    return {name: rest.split() for name, _, rest in (line.partition(" ") for line in KEPT.read_text().splitlines())}


def test_the_public_names_are_those_kept():
    """A name that is added, renamed or removed is a change for others; to keep it, run this file."""
    assert list(kept()) == replication_lab.__all__


def test_the_page_of_the_public_names_has_each_of_them_once():
    """docs/api.md says what each is for."""
    table = [line.split("|")[2] for line in PAGE.read_text().splitlines() if line.startswith("|")]

    assert sorted(re.findall(r"`(\w+)`", " ".join(table))) == sorted(replication_lab.__all__)


def test_a_project_that_uses_the_package_imports_only_public_names():
    """All that tests/consumer has of the lab is from the root package, and from the one that needs Testcontainers."""
    lines = [line for file in CONSUMER.rglob("*.py") for line in file.read_text().splitlines()]
    imports = [line.strip() for line in lines if re.match(r"\s*(from|import) replication_lab", line)]

    public = ("from replication_lab import ", "from replication_lab.testcontainers import ")
    assert imports and [line for line in imports if not line.startswith(public)] == []


@pytest.mark.parametrize("name", replication_lab.__all__)
def test_a_public_name_keeps_its_parameters(name):
    """One that is added, renamed or removed is a change for others, too."""
    assert kept()[name] == parameters(name)


@pytest.mark.parametrize("name", replication_lab.__all__)
def test_a_public_name_has_a_docstring(name):
    """`help` shows it, and so does an editor."""
    assert inspect.getdoc(getattr(replication_lab, name))


def test_the_names_are_listed_and_no_other_is_found():
    """`dir` shows them before they are imported; a misspelt one is an AttributeError."""
    assert set(replication_lab.__all__) <= set(dir(replication_lab))
    with pytest.raises(AttributeError, match="no attribute 'Experimant'"):
        _ = replication_lab.Experimant  # type: ignore[attr-defined]  # that is what it must say


@pytest.mark.whole
def test_importing_the_package_loads_nothing_heavy():
    """Nor does an experiment's vocabulary load Docker or scipy: only the types of running labs do."""
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, replication_lab; print([each for each in {HEAVY} if each in sys.modules]);"
            "replication_lab.Experiment, replication_lab.claim, replication_lab.throughput;"
            "print([each for each in ('docker', 'scipy', 'requests', 'pymysql') if each in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.split("\n") == ["[]", "[]", ""]


if __name__ == "__main__":
    KEPT.write_text("".join(f"{' '.join([name, *parameters(name)])}\n" for name in replication_lab.__all__))
