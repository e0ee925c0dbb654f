"""How a command ends; apart from the verdicts, because `lab --help` imports it, and no library."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ends: as expected, with a finding, without doing what was asked, or with something not known.

    They are those of grep and diff, with a code of its own for what is not known. The harness that fails is USAGE too:
    a pipeline may let UNKNOWN pass, but never a run that broke off by an error.
    """

    GOOD = 0
    FINDING = 1
    USAGE = 2
    UNKNOWN = 3
