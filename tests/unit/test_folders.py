"""Is the lab's data found, and is what it writes kept out of it, in a checkout and as an installed package?"""

import ast
import asyncio
import functools
import importlib.util
import shutil
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest
from hatchling.builders.wheel import WheelBuilder
from replication_lab import runs
from replication_lab.live import page as live_page
from replication_lab.live.session import Impossible
from replication_lab.model.core import command
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, folders, lab_files, owners

WRITTEN = ("RUNS", "KEPT")


def loaded(package: Path):
    """Return the module as a package at that path would load it."""
    spec = importlib.util.spec_from_file_location("folders_elsewhere", package / "world" / "folders.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copied(monkeypatch, tmp_path):
    """Return a function that copies the module into a package of this test's own; the current folder is another."""

    def copy(package: str) -> Path:
        (tmp_path / package / "world").mkdir(parents=True)
        return Path(shutil.copy(folders.__file__, tmp_path / package / "world")).parents[1]

    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return copy


def test_a_checkout_keeps_everything_in_its_own_runs(copied, tmp_path):
    """Whatever the current folder is."""
    found = loaded(copied("checkout/harness/replication_lab"))

    assert not found.INSTALLED
    assert found.DATA == tmp_path / "checkout"
    assert {getattr(found, each) for each in WRITTEN} == {tmp_path / "checkout" / "runs"}


def test_an_installed_package_is_never_written_to(copied, tmp_path):
    """Its data is inside; results go to the current folder, the rest to the user's cache directory."""
    package = copied("site-packages/replication_lab")
    (package / "compose").mkdir()
    found = loaded(package)

    assert found.INSTALLED
    assert found.DATA == package
    assert found.RUNS == tmp_path / "mine" / "runs"
    assert found.KEPT == tmp_path / "cache" / "replication-lab"


def test_the_mark_of_this_process_says_where_it_saves_its_labs():
    """A name with a space is one word."""
    assert owners.owner().partition("@")[2] == quote(str(lab_files.FOLDER))


@pytest.mark.whole
def test_the_wheel_has_all_data_inside_the_package_and_no_password(tmp_path):
    """Every tracked file of the data folders, executable as here; not compose/.env, which git ignores."""
    wheel = zipfile.ZipFile(next(WheelBuilder(str(catalogue.ROOT)).build(directory=str(tmp_path))))
    inside = {each.filename: each.external_attr >> 16 for each in wheel.infolist()}
    wanted = {
        path.relative_to(catalogue.ROOT): path.stat().st_mode
        for folder in (catalogue.COMPOSE, catalogue.IMAGES, catalogue.TOXICS)
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".env")
    }

    assert {f"replication_lab/{path}" for path in wanted} <= set(inside)
    assert all(bool(inside[f"replication_lab/{path}"] & 0o111) == bool(mode & 0o111) for path, mode in wanted.items())
    assert [name for name in inside if ".env" in name] == []
    assert {"replication_lab/cli/__init__.py", "replication_lab/docs/question.schema.json"} <= set(inside)


@functools.cache
def named(package: Path) -> list[str]:
    """Return the texts of the package that name the command.

    Only a module with `./` can have one; the others need no parsing.
    """
    modules = [text for file in package.rglob("*.py") if "./" in (text := file.read_text())]
    code = [ast.walk(ast.parse(text)) for text in modules]
    texts = [node.value for nodes in code for node in nodes if isinstance(node, ast.Constant)]
    pages = [file.read_text() for file in package.rglob("*") if file.suffix in (".j2", ".js", ".html")]
    return [text for text in [*texts, *pages] if isinstance(text, str) and "./lab" in text]


@pytest.mark.whole
@pytest.mark.parametrize("is_installed", [True, False])
def test_every_text_names_the_command_as_it_is_typed(monkeypatch, is_installed):
    """An installed package has no `./lab`; in a checkout every text stays as it is."""
    monkeypatch.setattr(folders, "INSTALLED", is_installed)
    texts = [text for text in named(folders.PACKAGE) if text != command.LAUNCHER.pattern]

    assert len(texts) > 100
    assert [text for text in texts if ("./lab" in folders.as_typed(text)) == is_installed] == []


def test_the_page_of_runs_names_the_command_as_it_is_typed(monkeypatch, tmp_path):
    """It is read in a browser, beyond the streams of the command line."""
    monkeypatch.setattr(folders, "INSTALLED", True)
    monkeypatch.setattr(catalogue, "RUNS", tmp_path)
    monkeypatch.setattr(runs, "names", lambda: ["20260101-000000-without"])
    page = runs.write_index().read_text()

    assert "to write one: lab report" in page
    assert "./lab" not in page


def test_a_refusal_of_the_live_page_names_the_command_as_it_is_typed(monkeypatch):
    """A browser shows it."""
    monkeypatch.setattr(folders, "INSTALLED", True)

    error, not_now = LabError("it is in use", "", "./lab status"), Impossible()
    not_now.__cause__ = error

    for raised, status in ((error, 400), (not_now, 409)):
        answer = asyncio.run(live_page._refused(None, raised))
        assert b'"lab status"' in answer.body and answer.status_code == status
