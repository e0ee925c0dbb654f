"""What becomes of a claim that the machine could not decide: skipped and counted, or a failure?"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "claims" / "conftest.py"
TESTS = """
from types import SimpleNamespace
import pytest
from replication_lab.model.core.verdict import Verdict

@pytest.mark.parametrize("word", {words!r})
def test_claim(comes_out, word):
    verdict = Verdict.UNKNOWN if word == "unknown" else Verdict.HOLDS
    comes_out(SimpleNamespace(
        verdict=verdict, changed=word == "changed", sentence="it is so", expected="REFUTED", reason="too few rounds"
    ))
"""


@pytest.fixture
def ended(tmp_path):
    """Run claims with these outcomes; return the exit status and what was printed."""

    def run(*words, **options):
        shutil.copy(CONFTEST, tmp_path)
        (tmp_path / "test_it.py").write_text(TESTS.format(words=words))
        asked = [f"--{name}={value}" for name, value in options.items()]
        plugins = ["-p", "no:cacheprovider", "-p", "replication_lab.pytest_plugin"]
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *asked, "test_it.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    return run


def test_an_undecided_claim_is_skipped_with_its_reason_and_counted(ended):
    """The suite stays green, and says what it could not judge."""
    status, said = ended("holds", "holds", "unknown")

    assert status == 0
    assert "2 of 3 claims were decided on this machine" in said
    assert "not decided: test_it.py::test_claim[unknown]: too few rounds" in said


def test_fewer_than_half_decided_is_a_failure(ended):
    """A suite that judged next to nothing is no success."""
    status, said = ended("holds", "unknown", "unknown")

    assert status == 1
    assert "FAILED: fewer than half of the claims were decided" in said


def test_a_changed_verdict_stays_a_failure(ended):
    """However many others were decided."""
    status, said = ended("holds", "holds", "changed")

    assert status == 1
    assert "it is so: HOLDS, expected REFUTED" in said


def test_where_all_claims_are_judged_an_undecided_one_fails(ended):
    """As in `make claims`."""
    status, said = ended("holds", "holds", "unknown", **{"lab-engine": "all"})

    assert status == 1
    assert "not decided: too few rounds" in said
