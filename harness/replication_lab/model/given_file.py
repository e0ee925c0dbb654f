"""A file of the user's: its name for messages, and its text, so that nothing later depends on the file."""

import msgspec


class GivenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the user's, as a question and a record hold it."""

    name: str
    text: str
