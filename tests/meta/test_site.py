"""Does the site contain every page of the book, and only files that exist?"""

import importlib.util
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from replication_lab.world import catalogue

from tests.meta.test_docs import anchors

ROOT = catalogue.ROOT
DOCS = ROOT / "docs"


def pages(nav) -> list[str]:
    """Return the files that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages(part)]


@pytest.fixture(scope="module")
def settings():
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def test_the_navigation_names_every_page_once(settings):
    """A page that is not in it would not be found."""
    named = pages(settings["nav"])

    assert sorted(named) == sorted({path.relative_to(DOCS).as_posix() for path in DOCS.glob("*.md")})


def test_the_address_of_a_page_that_moved_leads_to_a_heading_of_another(settings):
    """Links from elsewhere still lead to the text."""
    for old, address in settings["extra"]["moved"].items():
        page, _, anchor = address.partition(".html#")
        assert not (DOCS / f"{old}.md").exists(), f"{old}.md is a page"
        assert anchor in anchors((DOCS / f"{page}.md").read_text()), address


def test_every_variable_that_is_read_is_on_the_page_of_variables():
    """Read by the launcher, by Compose, or by the program."""
    page = (DOCS / "commands.md").read_text()
    sources = [ROOT / "lab", *(ROOT / "compose").rglob("*.yaml"), *(ROOT / "harness").rglob("*.py")]
    read = re.compile(r"\$\{(LAB_[A-Z_]+)|(?:environ(?:\.get\(|\[)|^VARIABLE = )\"(LAB_[A-Z_]+)\"", re.M)
    names = {name for path in sources for pair in read.findall(path.read_text()) for name in pair if name}

    assert {"LAB_INSTALL", "LAB_SST", "LAB_PASSWORD"} <= names
    assert sorted(name for name in names if name not in page and not name.startswith("LAB_PORT_")) == []


@pytest.mark.parametrize(
    ("name", "page"), [("changelog", "changelog"), ("contributing", "project"), ("security", "project")]
)
def test_a_page_of_the_site_has_the_text_of_a_file_beside_docs(name, page):
    """Its links lead to pages of the site; files that the site does not have are named only."""
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    made = hooks.on_page_markdown((DOCS / f"{page}.md").read_text())

    headings = re.findall(r"^## .*$", (ROOT / f"{name.upper()}.md").read_text(), re.M)
    assert headings and [each for each in headings if each not in made] == []
    assert "](docs/" not in made and "](../" not in made


def test_the_vendored_script_is_the_one_that_its_page_names():
    """The digest is written beside it."""
    folder = DOCS / "assets/iframe-worker"

    assert sha256((folder / "shim.js").read_bytes()).hexdigest() in (folder / "README.md").read_text()


@pytest.mark.long
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    """A broken link or anchor is an error; no script, style, font or picture comes from another host."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert built.returncode == 0, built.stdout + built.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        for loads in ('src="http', 'rel="stylesheet" href="http', 'rel="preconnect"', "unpkg.com"):
            assert loads not in text, (Path(page).name, loads)
