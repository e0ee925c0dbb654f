"""A small NBD client: one connection, one request at a time; a test says what is written and what is flushed."""

import errno
import socket
import struct
import time

# The constants and layouts are those of the NBD protocol's specification, doc/proto.md.
OPTION_MAGIC, REQUEST_MAGIC, REPLY_MAGIC = 0x49484156454F5054, 0x25609513, 0x67446698
FIXED_NEWSTYLE_NO_ZEROES, EXPORT_NAME = 3, 1
READ, WRITE, HANG_UP, FLUSH = 0, 1, 2, 3
FUA = 1


class Nbd:
    """A connection to a disk; a request that the server refuses raises OSError with its errno."""

    def __init__(self, address):
        # A disk answers in milliseconds; the host's own one may be busy with other tests for seconds.
        self._socket = socket.create_connection(address, timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._take(18)
        self._socket.sendall(struct.pack(">IQII", FIXED_NEWSTYLE_NO_ZEROES, OPTION_MAGIC, EXPORT_NAME, 0))
        self.size, self.flags = struct.unpack(">QH", self._take(10))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def read(self, offset, count):
        self._request(READ, offset, count)
        return self._take(count)

    def write(self, offset, data, fua=False):
        self._request(WRITE, offset, len(data), data, FUA if fua else 0)

    def flush(self):
        self._request(FLUSH, 0, 0)

    def _request(self, kind, offset, count, data=b"", flags=0):
        self._socket.sendall(struct.pack(">IHHQQI", REQUEST_MAGIC, flags, kind, 0, offset, count) + data)
        magic, error, _ = struct.unpack(">IIQ", self._take(16))
        if magic != REPLY_MAGIC:
            raise AssertionError(f"the server answered with {magic:#x}")
        if error:
            raise OSError(error, errno.errorcode.get(error, "unknown"))

    def _take(self, count):
        got = bytearray()
        while len(got) < count:
            part = self._socket.recv(count - len(got))
            if not part:
                raise ConnectionError("the disk hung up")
            got += part
        return bytes(got)


def seconds(act):
    """Return the wall-clock seconds of calling `act`."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
