"""Files of one JSON event a line, as records and ledgers are; a process that is killed may truncate the last line."""

from collections.abc import Iterable, Iterator

import msgspec

# What decoding a line may raise: also for text that is not UTF-8, and for thousands of brackets within each other.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Lines:
    """The numbered lines of a file, without empty ones and without a truncated last one.

    The file is read once, line by line: a ledger of many clients is too large for memory. `begin` is where in the file
    the line begins that was yielded last; `torn` is valid at the end.
    """

    def __init__(self, lines: Iterable[bytes]):
        self._lines = lines
        self.begin, self.torn = 0, False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number, line = 0, b""
        for number, following in enumerate(self._lines):
            if line.strip():
                yield number, line
            self.begin += len(line)
            line = following
        # A last line without its newline is complete if it is valid JSON.
        self.torn = not line.endswith(b"\n") and not _is_json(line) and line != b""
        if line.strip() and not self.torn:
            yield number + 1, line


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except UNREADABLE:
        return False
    return True
