"""Is what the package offers to others documented, complete, and cheap to import?"""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import replication_lab

KEPT = Path(__file__).with_name("public_names.txt")
HEAVY = ("docker", "scipy", "numpy", "msgspec", "requests", "pymysql")


def described(name: str) -> str:
    """Return a public name with its parameters; the fields of a summary are in docs/summary.schema.json."""
    found = getattr(replication_lab, name)
    if name.endswith("Summary") or name in ("LabError", "Verdict"):
        return name
    return f"{name}({', '.join(inspect.signature(found).parameters)})"


def test_the_public_names_are_those_kept():
    """A name or a parameter that is added, renamed or removed is a change for others; to keep it, run this file."""
    assert described_all() == KEPT.read_text()


def described_all() -> str:
    return "".join(f"{described(name)}\n" for name in replication_lab.__all__)


@pytest.mark.parametrize("name", replication_lab.__all__)
def test_a_public_name_has_a_docstring(name):
    """`help` shows it, and so does an editor."""
    assert inspect.getdoc(getattr(replication_lab, name))


def test_the_names_are_listed_and_no_other_is_found():
    """`dir` shows them before they are imported; a misspelt one is an AttributeError."""
    assert set(replication_lab.__all__) <= set(dir(replication_lab))
    with pytest.raises(AttributeError, match="no attribute 'Experimant'"):
        _ = replication_lab.Experimant


def test_importing_the_package_loads_nothing_heavy():
    """Nor does an experiment's vocabulary load Docker or scipy: only the types of running labs do."""
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, replication_lab; print([each for each in {HEAVY} if each in sys.modules]);"
            "replication_lab.Experiment, replication_lab.Claim, replication_lab.Bounds;"
            "print([each for each in ('docker', 'scipy', 'requests', 'pymysql') if each in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.split("\n") == ["[]", "[]", ""]


if __name__ == "__main__":
    KEPT.write_text(described_all())
