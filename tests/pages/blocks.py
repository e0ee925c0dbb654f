"""Extract the code blocks of a page of the book."""

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(?P<language>[\w-]+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.M | re.S)
FENCE = re.compile(r"^ *```", re.M)
HEADING = re.compile(r"^## (.+)$", re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the file that it is (if it is a whole one), and where it is."""

    language: str
    text: str
    title: str
    section: str
    line: int

    @property
    def commands(self) -> list[str]:
        """Return the lines of a block of shell, without comments; a line that ends with a backslash is continued."""
        lines = self.text.replace("\\\n", "").splitlines()
        return [bare for line in lines if (bare := re.sub(r"(^|\s+)# .*", "", line).strip())]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [_block(text, found) for found in BLOCK.finditer(text)]


def _block(text: str, found: re.Match[str]) -> Block:
    headings = HEADING.findall(text, 0, found.start())
    line = text.count("\n", 0, found.start()) + 1
    return Block(found["language"], found["text"], found["title"] or "", headings[-1] if headings else "", line)


def write(files: list[Block], folder: Path) -> None:
    """Write each block that is a whole file into a folder, under its title."""
    for each in files:
        if each.title:
            (folder / each.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / each.title).write_text(each.text)
