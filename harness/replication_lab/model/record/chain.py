"""The digests in a record's lines: each covers its own line and the digest before it.

So a line that was changed or removed is found. A program that computes all digests again is not found.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

# At the end of each line, as the last of its fields.
FIELD = re.compile(rb',"digest":"([0-9a-f]{32})"\}\s*\Z')
BYTES = 16


@dataclass(frozen=True)
class Chain:
    """The digests of a record's lines until now; `last` is that of the last line."""

    last: bytes = b""

    def sealed(self, line: bytes) -> tuple[bytes, "Chain"]:
        """Return a JSON line with its digest as one more field, newline included, and the chain with it."""
        content = line.rstrip()
        digest = self._digest(content)
        return content[:-1] + b',"digest":"' + digest + b'"}\n', Chain(digest)

    def continued(self, line: bytes) -> tuple[bool, "Chain"]:
        """Return whether a line is as it was sealed after the line before, and the chain with it in any case."""
        found = FIELD.search(line)
        if found is None:
            return False, self
        return self._digest(line[: found.start()] + b"}") == found[1], Chain(found[1])

    def _digest(self, content: bytes) -> bytes:
        return blake2b(self.last + content, digest_size=BYTES).hexdigest().encode()
