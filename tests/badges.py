"""README's badges: small pictures of what files of the repository say; `make figures` draws them."""

import tomllib
from html import escape

from replication_lab.model.core.verdict import Verdict
from replication_lab.world.catalogue import ROOT

from tests import kept

FOLDER = ROOT / "docs" / "images"
# Pixels of a character of 11 px Verdana, on average, and around a text.
CHARACTER, AROUND = 6.6, 12
BADGE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}: {value}">'
    "<title>{name}: {value}</title>"
    '<rect width="{left}" height="20" fill="#484f58"/><rect x="{left}" width="{right}" height="20" fill="#0b5c8f"/>'
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
    '<text x="{of_left}" y="14">{name}</text><text x="{of_right}" y="14">{value}</text></g></svg>\n'
)


def badges() -> dict[str, str]:
    """Return each badge, by the file's name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "badge-licence.svg": drawn("licence", project["license"]),
        "badge-python.svg": drawn("python", project["requires-python"].replace(">=", "≥ ")),
        "badge-published.svg": drawn("published measurements decided", decided()),
    }


def decided() -> str:
    """Return how many published measurements have an answer in a kept record, none of it UNKNOWN."""
    verdicts = [{claim.verdict for claim in claims.values()} for _, claims in kept.answers()]
    return f"{sum(Verdict.UNKNOWN not in each for each in verdicts)} of {len(verdicts)}"


def drawn(name: str, value: str) -> str:
    """Return a badge as SVG: what it is about on the left, its value on the right."""
    left, right = (round(len(text) * CHARACTER + AROUND) for text in (name, value))
    return BADGE.format(
        name=escape(name),
        value=escape(value),
        left=left,
        right=right,
        width=left + right,
        of_left=left / 2,
        of_right=left + right / 2,
    )
