"""A file of the user: its name for messages, and its text, so that the file is not read again later."""

import posixpath

import msgspec


class GivenFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file of the user, as questions and records contain it.

    `beside` are the files that it reads from its own folder: by !include, source or require, under their paths there.
    """

    name: str
    text: str
    beside: tuple["GivenFile", ...] = ()


def beside(name: str, written: str) -> str:
    """Return the path, from the folder of the user's file, of what the file `name` refers to in these words.

    An absolute path is one of the server's machine: its last part is looked for beside the file.
    """
    if written.startswith("/"):
        return posixpath.basename(written.rstrip("/"))
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), written))
