"""Each recipe of docs/recipes.md is run on real servers as its reader types it, in short."""

import json
import os
import subprocess
import sys

import pytest
from replication_lab.world import catalogue
from replication_lab.world.journal import read

from tests.recipes.page import make_files, recipes, shortened

# Three labs, and a drill for each; without the limit of the fixture `command`.
SECONDS = 900


@pytest.mark.long
@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.name)
def test_a_recipe_is_answered(recipe, tmp_path, docker):
    """It ends with an answer, or for want of rounds; everything that it set was proved, and its table is printed."""
    make_files(tmp_path)
    for typed in recipe.commands:
        answer = subprocess.run(
            [sys.executable, "-m", "replication_lab", *shortened(typed)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONPATH": str(catalogue.ROOT / "harness")},
        )

        assert answer.returncode in (0, 3), answer.stdout + answer.stderr
        assert "p50 ms" in answer.stdout and "p50 ÷ RTT" in answer.stdout
        told = answer.stderr.rpartition("record and report: ")[2].split()[0]
        summary = json.loads((tmp_path / told / "summary.json").read_text())
        assert summary["doubts"] == [], answer.stderr
        assert summary["effects"] or summary["drilled"]
        _, record = read(tmp_path / told)
        assert not any(m.reasons_to_doubt for m in record.measurements if m.noise.quiet)
