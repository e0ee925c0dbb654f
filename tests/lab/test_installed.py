"""Does the lab work where it is installed as a package, and write nothing but results here and its own cache directory?

The wheel is built and installed without a network, outside the checkout. Its requirements are this environment's own.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import replication_lab
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from replication_lab.world import catalogue

from tests.lab.outside import built_wheel

OFFLINE = ["--no-index", "--no-deps", "--disable-pip-version-check", "-q"]
QUESTION = ["single", "--vary", "sync_binlog=0,1", "--runs", "3", "--duration", "1", "--noise", "accept"]


def files(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a folder with `env`, in which the wheel is installed, and empty folders `home` and `work`."""
    root = tmp_path_factory.mktemp("installed")
    for name in ("home", "home-of-pip", "work", "elsewhere"):
        (root / name).mkdir()
    subprocess.run([sys.executable, "-m", "venv", root / "env"], check=True)
    python = root / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", *OFFLINE, built_wheel(root / "wheel")], check=True, env=clean(root))
    # A plain path: the checkout, which this environment names in a .pth file of its own, is not found there.
    (packages(root) / "requirements.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return root


def clean(root: Path, home: str = "home-of-pip") -> dict[str, str]:
    """Return an environment which knows nothing of the checkout, with an empty home."""
    left_out = ("PYTHON", "XDG_", "VIRTUAL_ENV", "LAB_", "PYTEST")
    return {**{k: v for k, v in os.environ.items() if not k.startswith(left_out)}, "HOME": str(root / home)}


def packages(root: Path) -> Path:
    return next((root / "env" / "lib").glob("python3*/site-packages"))


@pytest.mark.long
def test_an_installed_lab_works_in_any_directory(installed, name):
    """Version, list, a lab that is up, a question, and down from another directory; the package stays as it was."""
    before = files(packages(installed))

    def lab(*arguments, folder="work") -> str:
        ended = subprocess.run(
            [installed / "env" / "bin" / "lab", *arguments],
            cwd=installed / folder,
            env=clean(installed, "home"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        said = ended.stdout + ended.stderr
        assert ended.returncode in ((0, 1, 3) if arguments[0] == "ask" else (0,)), said
        assert "./lab" not in said
        return said

    assert lab("--version") == f"lab {replication_lab.VERSION}\n"
    assert "semisync_wan" in lab("list")
    assert f"{name} is up" in lab("up", "async", "--lab", name)
    assert Path(".cache", "replication-lab", "labs", f"{name}.json") in files(installed / "home")
    assert name in lab("status", folder="elsewhere")
    assert "record and report: runs/" in lab("ask", *QUESTION)
    lab("down", "--yes", "--lab", name, folder="elsewhere")

    assert files(packages(installed)) == before
    assert files(installed / "elsewhere") == set()
    assert {path.parts[0] for path in files(installed / "work")} == {"runs"}
    assert {path.parts[:2] for path in files(installed / "home")} <= {(".cache", "replication-lab")}


@pytest.mark.long
def test_the_source_archive_builds_the_same_wheel(tmp_path):
    """Nothing that the wheel needs is left out of it, and nothing that git ignores is in it."""
    archive = next(SdistBuilder(str(catalogue.ROOT)).build(directory=str(tmp_path)))
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    unpacked = next(tmp_path.glob("*/pyproject.toml")).parent
    ours, theirs = (
        set(zipfile.ZipFile(next(WheelBuilder(str(root)).build(directory=str(tmp_path / name)))).namelist())
        for root, name in ((catalogue.ROOT, "ours"), (unpacked, "theirs"))
    )

    assert ours == theirs
    assert not {"runs", ".venv", ".git"} & {*os.listdir(unpacked), *os.listdir(unpacked / "compose")}
