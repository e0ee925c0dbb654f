"""One event a line, as every record and ledger is written; a process that is killed may tear the last one."""

from collections.abc import Iterable, Iterator

import msgspec


class Lines:
    """The numbered lines of a file, without empty ones and without a last one that was cut off in its writing.

    Read once, line by line: a ledger of many clients is larger than all else in memory. `torn` is known at the end.
    """

    def __init__(self, lines: Iterable[bytes]):
        self._lines = lines
        self.torn = False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        number, line = 0, b""
        for number, following in enumerate(self._lines):
            if line.strip():
                yield number, line
            line = following
        # Whole but for its newline is whole: all of the event was written.
        self.torn = not line.endswith(b"\n") and not _is_json(line) and line != b""
        if line.strip() and not self.torn:
            yield number + 1, line


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True
