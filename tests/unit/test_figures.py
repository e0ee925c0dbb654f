"""Have measured figures three significant digits, in every message of the package?"""

import ast
import re
from pathlib import Path

import pytest
import replication_lab
from replication_lab.model.core.figures import three_digits

PACKAGE = Path(replication_lab.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# What follows a figure in a message.
UNIT = re.compile(r" ?(?:ms|µs|[KM]B/s|/s)\b| ?%| s\b| times\b")
# Functions that round, and constants.
ROUNDS = {"three_digits", "number", "_number", "ratio", "_percent", "_seconds", "without_service"}
CONSTANT = re.compile(r"(?:\w+\.)*[A-Z][A-Z_]+")
# What is whole by its type or no figure at all, by file.
WHOLE = {
    "attach/writable.py": {"seconds"},
    "experiments/_far.py": {"milliseconds", "self.ms"},
    "faults/replica_threads.py": {"delay", "found", "had", "self._delay"},
    "faults/link_proof.py": {"toxic.rate_kbps", "asked", "asked_for"},
    "faults/cpu_and_memory.py": {"had", "us", "quota"},
    "lab/disks.py": {"limits.flush_us"},
    "lab/up.py": {"again"},
    "model/core/observation.py": {"len(self.contrary) - TOLD"},
    "model/experiment/experiment.py": {"self.rtt_ms", "asked.trip_ms"},
    "model/lab/condition.py": {
        *("self.trip_ms", "self.up_ms", "self.down_ms", "self.jitter_ms", "self.rate_kbps"),
        *("trip", "jitter", "up", "down", "down + up", "value"),
    },
    "model/question/validation.py": {"seconds"},
    "replication/switchover.py": {"state.delay_seconds"},
    "report/page.py": {"words"},
    "report/round_timelines.py": {"rounds.width"},
    "report/terminal.py": {"name"},
    "world/mysql/replica.py": {"self.lag_seconds", "seconds"},
    "world/mysql/semisync.py": {"prefix"},
}


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (12.844028000472463, "12.8"),
        (84.96, "85.0"),
        (0.99996, "1.00"),
        (0.012344, "0.0123"),
        (1234.5, "1230"),
        (-0.26, "-0.260"),
        (1.5e-7, "0.000000150"),
        (0.0, "0"),
        (1234, "1234"),
        (86.0, "86"),
    ],
)
def test_a_figure_has_three_significant_digits_and_no_exponent(figure, said):
    """As prose has it; the record keeps all. A whole number is a request or a count."""
    assert three_digits(figure) == said


def unrounded(code: str) -> set[str]:
    """Return the values of f-strings before a unit that may have any number of digits."""
    found: list[ast.expr] = []
    for text in ast.walk(ast.parse(code)):
        if isinstance(text, ast.JoinedStr):
            for value, after in zip(text.values, text.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and has_unit(after) and not value.format_spec:
                    found.append(value.value)
    return {ast.unparse(value) for value in found if not is_rounded(value)}


def has_unit(after: ast.expr) -> bool:
    return isinstance(after, ast.Constant) and UNIT.match(after.value) is not None


def is_rounded(value: ast.expr) -> bool:
    called = getattr(value, "func", None)
    name = getattr(called, "id", getattr(called, "attr", ""))
    return name in ROUNDS or CONSTANT.fullmatch(ast.unparse(value)) is not None


def test_no_message_has_a_figure_that_is_not_rounded():
    """`the round trip was 12.844028000472463 ms` is what a message must never say."""
    found = {path: unrounded(path.read_text()) - WHOLE.get(str(path.relative_to(PACKAGE)), set()) for path in FILES}

    assert {path: values for path, values in found.items() if values} == {}


def test_a_figure_that_is_not_rounded_is_noticed():
    """Before any unit; a format, a function that rounds, and a constant are none."""
    said = 'f"{trip_ms} ms, {x:.1f} ms, {three_digits(x)} ms, {SECONDS} s, {one.found} % and {words} more"'

    assert unrounded(said) == {"trip_ms", "one.found"}
