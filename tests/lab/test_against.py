"""Real servers compared in the same rounds: with another engine, a my.cnf file, and another commit."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(900)]

CASE = "none"
# Wider than any difference between these servers: the tests are about the comparison, not about them.
MARGIN = "60%"


@pytest.fixture
def file(tmp_path) -> Path:
    """Return a my.cnf file that makes nothing slower."""
    found = tmp_path / "ours.cnf"
    found.write_text("[mysqld]\ninnodb_io_capacity = 300\n")
    return found


@pytest.mark.parametrize(
    ("against", "options"),
    [("mariadb-10.11", []), ("mariadb-10.11", ["--rtt", "40ms"]), ("ours.cnf", []), ("git:HEAD", [])],
)
def test_a_case_is_compared_in_the_same_rounds(command, file, against, options):
    """One claim for the case, judged on real servers: under another round trip as well, where no other claim is."""
    reference = str(file) if against == "ours.cnf" else against
    asked = ["--case", CASE, "--against", reference, "--margin", MARGIN, *options]
    answer = command("run", "semisync_wan", "--preset", "least", *asked, "--json")
    claims = {claim["id"]: claim["verdict"] for claim in json.loads(answer.stdout)["claims"]}

    assert answer.returncode == 0, answer.stderr
    assert claims == {f"against:{'git' if against.startswith('git') else against}:{CASE}": "HOLDS"}
