"""The servers of the page and of the metrics: on the loopback interface only, each in a thread of its own."""

import html
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from replication_lab import live
from replication_lab.live.access import Access
from replication_lab.live.page import application
from replication_lab.live.prometheus import endpoint, text_of
from replication_lab.live.session import ViewSession
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, clock, files

ADDRESS = "127.0.0.1"
ASSETS = Path(live.__file__).parent.parent / "assets"
LEADING = '<!doctype html><title>Lab live</title><meta http-equiv="refresh" content="0; url={address}">\n'
START_SECONDS, END_SECONDS = 15, 2


@contextmanager
def serving(viewed: ViewSession, port: int, renewed: Callable[[str], object]) -> Iterator[str]:
    """Serve the page within the block, on a free port if `port` is 0; yield its address with the token.

    The token follows a #: a browser sends that part of an address to no server. `renewed` gets the next address
    whenever a token was used, or came too late.
    """
    begun: list[str] = []
    access = Access(lambda token: renewed(f"{begun[0]}/#token={token}"))
    with _running(application(viewed, access, ASSETS), port) as address:
        begun.append(address)
        try:
            yield f"{address}/#token={access.token}"
        finally:
            # While the server still runs: a page without this would connect again and again.
            viewed.end("the command that serves the page has ended")


@contextmanager
def leading_to(address: str) -> Iterator[Path]:
    """Yield a file that leads a browser to the page, and that only this user can read, for the time of the block.

    Its name may stand on the command line of a browser, which every user of the machine can read; the token may not.
    """
    file = catalogue.RUNS / f".live-{os.getpid()}.html"
    files.write_whole(file, LEADING.format(address=html.escape(address)).encode())
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def measuring(viewed: ViewSession, port: int) -> Iterator[str]:
    """Serve metrics within the block; yield their address."""
    with _running(endpoint(lambda: text_of(viewed.hello(), viewed.state())), port) as address:
        yield f"{address}/metrics"


@contextmanager
def _running(app: ASGIApp, port: int) -> Iterator[str]:
    config = uvicorn.Config(
        app,
        host=ADDRESS,
        port=port,
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=END_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=_run, args=(server,), name="page", daemon=True)
    thread.start()
    try:
        clock.wait_until(lambda: server.started or not thread.is_alive(), "the server to start", START_SECONDS)
        if not server.started:
            raise LabError(f"port {port} of {ADDRESS} is in use", "a free port", "./lab live --port 0")
        yield f"http://{ADDRESS}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(END_SECONDS + 1)


def _run(server: uvicorn.Server) -> None:
    try:
        server.run()
    except SystemExit:
        # The port is taken; the caller sees that the server did not start.
        return
