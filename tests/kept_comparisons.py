"""The parts of docs/comparing.md that runs in tests/records make: two runs compared, and many over time."""

import io

from replication_lab.model.comparing import comparison, over_time
from replication_lab.report import compared
from replication_lab.report import over_time as shown_over_time
from rich.console import Console, RenderableType

from tests.records import compared as compared_runs

# The width of prose in the docs.
WIDTH = 100


def compare(before: str, after: str, percent: str = "10") -> str:
    """Return what `lab compare` prints of two runs of tests/records/compared.py; nothing while none are kept."""
    margin = int(percent) / 100
    if not all(compared_runs.is_kept(name) for name in (before, after)):
        return ""
    found = comparison.compare(compared_runs.kept(before), compared_runs.kept(after), margin)
    return _printed(compared.rendered(found, margin))


def history(of: str) -> str:
    """Return what `lab history OF` prints of the runs over time in tests/records; nothing while none are kept."""
    found = [series for series in over_time.history(compared_runs.history()) if series.of == of]
    if not found:
        return ""
    return _printed(shown_over_time.run_by_run(found[0]))


def _printed(shown: RenderableType) -> str:
    file = io.StringIO()
    Console(width=WIDTH, file=file).print(shown)
    printed = "\n".join(line.rstrip() for line in file.getvalue().splitlines())
    return f"```text\n{printed.strip()}\n```\n"
