"""The parts of docs/comparing.md that runs in tests/records make: two runs compared, and many over time."""

import io

from replication_lab.model.comparing import comparison, over_time
from replication_lab.model.comparing.digest import Digest
from replication_lab.report import compared
from replication_lab.report import over_time as shown_over_time
from rich.console import Console, RenderableType

from tests.records import compared as compared_runs

# The width of prose in the docs.
WIDTH = 100
MARGIN = 0.1


def compare(before: str, after: str) -> str:
    """Return what `lab compare` prints of runs of tests/records/compared.py; nothing while none are kept.

    A side is the name of a run, or the first and the last number of runs over time, as in 1-9.
    """
    earlier, later = _side(before), _side(after)
    if not (earlier and later):
        return ""
    return _printed(compared.rendered(comparison.compare(earlier, later, MARGIN), MARGIN))


def _side(name: str) -> list[Digest]:
    if "-" in name:
        first, last = map(int, name.split("-"))
        return compared_runs.history()[first - 1 : last]
    return [compared_runs.kept(name)] if compared_runs.is_kept(name) else []


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
