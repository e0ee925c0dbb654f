"""A way to a server that can be broken and opened again, on the same port."""

import socket
import threading
from contextlib import suppress


class Forwarder:
    """Forwards connections to `address`; `close` ends them and refuses new ones, `open` takes them again."""

    def __init__(self, address: str):
        self._target = int(address.partition("/#")[0].rpartition(":")[2])
        self._port, self._ends = 0, []
        self.open()
        self.address = address.replace(f":{self._target}/", f":{self._port}/")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def open(self):
        self._door = socket.create_server(("127.0.0.1", self._port))
        self._port = self._door.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._door,), daemon=True).start()

    def close(self):
        ends, self._ends = self._ends, []
        for end in (self._door, *ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self, door):
        with suppress(OSError):
            while True:
                near, far = door.accept()[0], socket.create_connection(("127.0.0.1", self._target))
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(one, other):
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
