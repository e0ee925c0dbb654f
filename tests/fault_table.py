"""The table of faults in docs/drills.md: `make texts` writes it from the descriptions in the code."""

from replication_lab import faults
from replication_lab.world import catalogue

PAGE = catalogue.ROOT / "docs" / "drills.md"
HEAD = "| fault | targets | what it does | its proof |\n|---|---|---|---|\n"


def page() -> str:
    """Return the page with a row for each fault there is, in the order of the names."""
    before, head, rest = PAGE.read_text().partition(HEAD)
    rows = [
        f"| `{name}` | {kind.targets} | {kind.does} | {kind.proof} |" for name, kind in sorted(faults.kinds().items())
    ]
    return before + head + "\n".join(rows) + "\n\n" + rest.partition("\n\n")[2]


if __name__ == "__main__":
    PAGE.write_text(page())
