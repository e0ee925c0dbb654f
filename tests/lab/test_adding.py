"""docs/adding.md is followed in a copy of the project: its blocks are written to their files, its commands are run."""

import os
import shutil
import subprocess

import pytest
from replication_lab.world import catalogue

from tests.lab.conftest import things_of
from tests.pages.blocks import blocks, write

PAGE = catalogue.ROOT / "docs" / "adding.md"
# The sections that build something in the order of the page. The others say what a larger addition consists of.
BUILT = ("A toxic", "A topology", "An experiment", "A load", "A probe", "A fault", "A drill")
SECONDS = 900
# As for `lab run` in every test: other programs use the CPUs meanwhile, and a run without a verdict is no failure.
NOISY, JUDGED = " --noise accept", (0, 3)

pytestmark = [pytest.mark.long, pytest.mark.timeout(3 * SECONDS)]


@pytest.fixture
def project(tmp_path, docker):
    """Copy the checkout's files, without results; its environment is the one that runs this test."""
    checkout = tmp_path / "checkout"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=catalogue.ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        if (catalogue.ROOT / name).is_file():
            shutil.copy2(catalogue.ROOT / name, checkout / name)
    (checkout / ".venv").symlink_to((catalogue.ROOT / ".venv").resolve())
    return checkout


@pytest.fixture
def mine(project, tmp_path):
    """Make an empty project, and a folder of programs with the command `lab`."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lab").symlink_to(project / "lab")
    return tmp_path / "shop"


def with_name(command: str, name: str) -> str:
    """Return a command with a lab of the test's own in place of the usual one."""
    words = command.split()
    if words[:2] in (["./lab", "up"], ["./lab", "down"], ["./lab", "link"]):
        return f"{command} --lab {name}"
    return command + NOISY if words[1:2] == ["run"] else command


def is_of_the_project(title: str) -> bool:
    return not title.startswith("toxics/")


def test_every_block_and_command_of_the_page_works(project, mine, tmp_path, name):
    """In the order of the page; each command succeeds, and what is up is removed by the page's own commands."""
    done = [block for block in blocks(PAGE) if block.section in BUILT or block.title == "pyproject.toml"]
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(project / "harness"),
        "COMPOSE_PROJECT_NAME": name,
    }
    subprocess.run(["./lab", "--help"], cwd=project, check=True, capture_output=True)

    for block in done:
        write([block], mine if is_of_the_project(block.title) else project)
        for command in block.commands if block.language == "sh" else []:
            folder = mine if command.startswith("lab ") else project
            shell = {"cwd": folder, "capture_output": True, "text": True, "timeout": SECONDS, "env": environment}
            ended = subprocess.run(["sh", "-c", with_name(command, name)], check=False, **shell)

            expected = JUDGED if command.startswith("lab run") else (0,)
            assert ended.returncode in expected, f"line {block.line}: {command}\n{ended.stdout}{ended.stderr}"
    assert {block.section for block in done if block.section} >= set(BUILT)
    assert things_of(name) == []
