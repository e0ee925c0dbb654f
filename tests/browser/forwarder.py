"""A way to a server that can be broken and opened again, on the same port."""

import socket
import threading
from contextlib import suppress
from pathlib import Path


class Way:
    """Forwards connections; `close` ends them and refuses new ones, `open` takes them again."""

    def __init__(self):
        self._ends = []
        self.open()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def listen(self):
        """Return a socket that takes connections."""
        raise NotImplementedError

    def connect(self):
        """Return a connection to the server."""
        raise NotImplementedError

    def open(self):
        self._door = self.listen()
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
                near, far = door.accept()[0], self.connect()
                self._ends += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()


class Forwarder(Way):
    """Forwards connections to the port of an `address`."""

    def __init__(self, address: str):
        self._target, self._port = int(address.partition("/#")[0].rpartition(":")[2]), 0
        super().__init__()
        self.address = address.replace(f":{self._target}/", f":{self._port}/")

    def listen(self):
        door = socket.create_server(("127.0.0.1", self._port))
        self._port = door.getsockname()[1]
        return door

    def connect(self):
        return socket.create_connection(("127.0.0.1", self._target))


class SocketForwarder(Way):
    """Forwards connections from a socket in the file system to another one, as that of the Docker engine."""

    def __init__(self, path: Path, target: str):
        self._path, self._target = path, target
        super().__init__()
        self.address = f"unix://{path}"

    def listen(self):
        self._path.unlink(missing_ok=True)
        door = socket.socket(socket.AF_UNIX)
        door.bind(str(self._path))
        door.listen()
        return door

    def connect(self):
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        return server


def _copy(one, other):
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
