"""The blocks of commands that tests/pages/commands.yaml marks `run`, on real servers, each with a lab of its own."""

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from replication_lab import cli
from replication_lab.world import catalogue

from tests.pages import commands
from tests.recipes.page import shortened

SECONDS = 900
# A block of two machines starts one after the other.
pytestmark = [pytest.mark.long, pytest.mark.timeout(2 * SECONDS)]
# The limits of disks are proved while nothing else uses the machine, and another test's run would be `latest`.
ALONE = ("--disk", "--storage", "latest")
BLOCKS = [
    pytest.param(
        [*row.before, *block.commands],
        id=f"{page.stem}:{block.line}",
        marks=[pytest.mark.alone] if any(word in line for word in ALONE for line in block.commands) else [],
    )
    for page in commands.PAGES
    for row, block in zip(commands.rows().get(page.name, []), commands.of_shell(page), strict=True)
    if row.run
]
# A drill starts a lab of its own; its option names an attached project.
OWN_LAB = "drill"
# An answer for want of rounds is one.
MEASURES, ANSWERED = ("ask",), (0, 3)


def own(line: str, name: str) -> str:
    """Return a command of a page with the test's own lab in place of the usual one, and a question in short."""
    made = re.sub(r"^make lab-up TOPOLOGY=(\S+)(?: ENGINE=(\S+))?$", r"./lab up \1 --engine=\2", line)
    made = re.sub(r" --engine=$", "", re.sub(r" --lab \S*[^\s)\"]", "", made))
    found = re.search(r"\./lab ([^)]+)", made)
    if found is None:
        return made
    words = shlex.split(found[1])
    if words[0] in MEASURES:
        return "./lab " + shlex.join(shortened(tuple(words)))
    path = "" if words[0] == OWN_LAB else called(words)
    return made.replace(f"./lab {path}", f"./lab {path} --lab {name}", 1) if path else made


def called(words: list[str]) -> str:
    """Return the words that name a command with the option --lab; an empty string for one without it."""
    known: Any = cli.cli.commands[words[0]]
    known = known.load()
    inner = getattr(known, "commands", {}).get(next(iter(words[1:]), ""))
    has_it = any("--lab" in option.opts for option in (inner or known).params)
    return " ".join(words[: 2 if inner else 1]) if has_it else ""


@pytest.mark.parametrize("lines", BLOCKS)
def test_a_block_of_commands_works(lines, tmp_path, name, docker):
    """Each command succeeds, in the order of the page."""
    launcher = tmp_path / "lab"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m replication_lab "$@"\n')
    launcher.chmod(0o755)
    commands.make_files(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(catalogue.ROOT / "harness")}
    for line in lines:
        # Without a terminal nobody is asked.
        typed = own(line, name) + (" --yes" if line.split()[1:2] == ["down"] else "")
        shell = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": SECONDS, "env": environment}
        ended = subprocess.run(["sh", "-c", typed], check=False, **shell)

        expected = ANSWERED if typed.split()[1] in MEASURES else (0,)
        assert ended.returncode in expected, f"{typed}\n{ended.stdout}{ended.stderr}"
