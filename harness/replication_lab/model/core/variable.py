"""Values of server variables: written for SET GLOBAL, and compared with the value that a server returns."""

import re

SIZE = re.compile(r"(\d+)([kmgtpe])", re.IGNORECASE)
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50, "e": 1 << 60}
SWITCH = {"on": "1", "true": "1", "yes": "1", "off": "0", "false": "0", "no": "0"}


def literal(value: str) -> str:
    """Return a value in the form that SET GLOBAL accepts: 64M as a number of bytes, words in quotes."""
    if size := SIZE.fullmatch(value):
        return str(int(size[1]) * UNITS[size[2].lower()])
    try:
        float(value)
    except ValueError:
        return value if value.lower() in SWITCH else f"'{value}'"
    return value


def is_same(asked: str, found: object) -> bool:
    """Return whether the value that a server returns is the requested one: ON equals 1, 64M equals 67108864.

    The order of words in a list is ignored. In a list of switches only the requested ones are compared. MySQL 5.5
    returns -1 for a switch of a plugin that SET has turned on.
    """
    wanted, there = _plain(asked), _plain(str(found))
    if (wanted, there) == ("1", "-1"):
        return True
    try:
        return float(wanted) == float(there)
    except ValueError:
        words, known = ({part.strip() for part in text.split(",")} for text in (wanted, there))
        return words <= known if all("=" in word for word in words) else words == known


def _plain(value: str) -> str:
    lower = literal(value).strip("'").lower()
    return SWITCH.get(lower, lower)
