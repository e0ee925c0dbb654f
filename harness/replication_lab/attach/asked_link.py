"""A link as a user asks for it."""

import re
from dataclasses import dataclass

from replication_lab.model.core.errors import LabError

FORM = "CONSUMER:SERVER or CONSUMER:SERVER:PORT, both services of the project"


@dataclass(frozen=True)
class AskedLink:
    """A link as a user asks for it; port 0 is to be found out."""

    source: str
    target: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.target}{f':{self.port}' if self.port else ''}"


def parse_link(text: str) -> AskedLink:
    """Return the link of app:db or app:db:3306. Raise LabError for anything else."""
    source, _, rest = text.partition(":")
    target, colon, port = rest.partition(":")
    is_number = re.fullmatch(r"[1-9]\d{0,4}", port) is not None
    if not source or not target or (colon and not is_number):
        raise LabError(f"--link {text!r} does not name two services", FORM, "./lab attach --help")
    if source == target:
        raise LabError(f"--link {text} leads from {source} to itself", FORM, "./lab attach --help")
    return AskedLink(source, target, int(port or 0))
