"""Do README's badges say what the repository's files say now?"""

import re
from xml.etree import ElementTree

import msgspec
import pytest
from replication_lab.model.core.verdict import Verdict
from replication_lab.world.catalogue import ROOT

from tests import badges, kept

NAMES = sorted(path.name for path in badges.FOLDER.glob("badge-*"))


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """Return each badge of today's files, by the file's name."""
    return badges.badges()


@pytest.mark.parametrize("name", NAMES)
def test_a_badge_is_the_one_of_its_facts(name, drawn):
    """Else: make figures."""
    assert (badges.FOLDER / name).read_text() == drawn[name], "make figures"


def test_readme_shows_every_badge_and_says_the_same_in_words(drawn):
    """A reader who sees no pictures reads what a badge says."""
    shown = dict(re.findall(r"\[!\[([^\]]+)\]\(docs/images/(badge-[^)]+)\)\]", (ROOT / "README.md").read_text()))

    assert set(shown.values()) == set(drawn) == set(NAMES)
    for words, name in shown.items():
        assert words == ElementTree.fromstring(drawn[name])[0].text


def test_an_answer_that_is_unknown_is_not_counted(monkeypatch):
    """The badge says how many are decided, not how many there are."""
    before = int(badges.decided().split()[0])
    (first, claims), *others = kept.answers()
    unknown = {name: msgspec.structs.replace(row, verdict=Verdict.UNKNOWN) for name, row in claims.items()}
    monkeypatch.setattr(kept, "answers", lambda: [(first, unknown), *others])

    assert badges.decided() == f"{before - 1} of {len(others) + 1}"
