"""The endpoint for Prometheus: figures to read, on the loopback interface, without a token and without commands."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from replication_lab.live.access import is_loopback

TYPE = "text/plain; version=0.0.4"


def endpoint(text: Callable[[], str]) -> Starlette:
    """Return the application; it answers GET /metrics of this machine only."""

    async def metrics(request: Request) -> Response:
        if not is_loopback(request.headers.get("host", "")):
            return PlainTextResponse("127.0.0.1 or localhost only\n", 400)
        return PlainTextResponse(text(), media_type=TYPE)

    return Starlette(routes=[Route("/metrics", metrics)])
