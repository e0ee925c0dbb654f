"""A file of the user: its name for messages, and its text, so that the file is not read again later."""

import msgspec


class GivenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the user, as questions and records contain it."""

    name: str
    text: str
