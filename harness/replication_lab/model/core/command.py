"""How the command is typed: texts say `./lab`, as in a checkout; where the package is installed it is `lab`."""

import re

# Commands that usually start a lab.
STARTING_LABS = ("up", "ask", "run", "drill", "soak")
LAUNCHER = re.compile(r"(?<![\w./-])\./lab(?![\w./-])")


def installed(text: str) -> str:
    """Return a text with the command of an installed package."""
    return LAUNCHER.sub("lab", text)
