"""A checkout at a path with a comma, spaces, an emoji, a quote and a dollar sign works as everywhere."""

import os
import shutil
import subprocess
import sys

import pytest
from replication_lab.world import catalogue

from tests.lab.conftest import things_of

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def at_odd_path(tmp_path_factory):
    """Run `lab …` from a copy of this checkout: its CompletedProcess with text output."""
    copy = tmp_path_factory.mktemp("odd") / "It's a lab, $HOME é🐬"
    for folder in ("compose", "images", "toxics", "harness"):
        shutil.copytree(catalogue.ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-C", copy, "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True, capture_output=True)

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "replication_lab", *words],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "harness")},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_images_are_those_of_any_other_checkout(at_odd_path, command):
    """Their digests do not depend on the path, so nothing is built again."""
    assert at_odd_path("images", "key").stdout == command("images", "key").stdout


def test_a_lab_with_disks_starts_and_is_removed(at_odd_path, name):
    """Its Compose files are several, and one of them extends others by their full path."""
    started = at_odd_path("up", "async", "--lab", name, "--storage", "replica=raid0", "--disk-size", "1024")

    assert started.returncode == 0, started.stderr
    assert name in at_odd_path("status", "--lab", name).stdout
    assert at_odd_path("down", "--yes", "--lab", name).returncode == 0
    assert things_of(name) == []


def test_a_question_and_a_drill_are_answered(at_odd_path):
    """Also of a revision, whose files are copied; nothing is left."""
    asked = at_odd_path("ask", "single@HEAD", "--vary", "sync_binlog=0,1", "--runs", "3", "--duration", "1")
    drilled = at_odd_path("drill", "single", "--drill", "kill", "--duration", "1")

    assert asked.returncode in (0, 3), asked.stderr
    assert drilled.returncode in (0, 3), drilled.stderr
