"""The page's server while it runs: on the loopback interface only, in a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from replication_lab import live
from replication_lab.live.access import Access
from replication_lab.live.page import application
from replication_lab.live.viewed import Viewed
from replication_lab.model.errors import LabError
from replication_lab.world import clock

ADDRESS = "127.0.0.1"
ASSETS = Path(live.__file__).parent.parent / "assets"
START_SECONDS, END_SECONDS = 15, 2


@contextmanager
def serving(viewed: Viewed, port: int, renewed: Callable[[str], object]) -> Iterator[str]:
    """Serve the page within the block, on a free port if `port` is 0; yield its address with the token.

    `renewed` gets the next address whenever a browser has used one.
    """
    access = Access(lambda token: renewed(_address(server, token)))
    config = uvicorn.Config(
        application(viewed, access, ASSETS),
        host=ADDRESS,
        port=port,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=END_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="page", daemon=True)
    thread.start()
    try:
        clock.wait_until(lambda: server.started or not thread.is_alive(), "the page's server to start", START_SECONDS)
        if not server.started:
            raise LabError(f"port {port} of {ADDRESS} is in use", "a free port")
        yield _address(server, access.token)
    finally:
        server.should_exit = True
        thread.join(END_SECONDS + 1)


def _address(server: uvicorn.Server, token: str) -> str:
    _, port = server.servers[0].sockets[0].getsockname()[:2]
    return f"http://{ADDRESS}:{port}/?token={token}"
