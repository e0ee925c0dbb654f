"""The live view as metrics in Prometheus's text format (prometheus.txt.j2), and the endpoint that answers with them.

It is on the loopback interface, without a token and without commands.
"""

from collections.abc import Callable, Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from replication_lab.live.access import is_loopback
from replication_lab.live.explained import template
from replication_lab.model.live.view import Hello, Level, ViewedState

TYPE = "text/plain; version=0.0.4"
LEVELS = {Level.GOOD: 2, Level.WARN: 1, Level.BAD: 0}


def text_of(hello: Hello, state: ViewedState) -> str:
    """Return all metrics; those whose value is unknown are left out."""
    return template("prometheus.txt.j2").render(
        hello=hello,
        state=state,
        by=_by,
        levels=[({"node": node.name, "state": node.state}, LEVELS.get(node.level)) for node in state.nodes],
        acting=[({"fault": span.label}, 1) for span in state.spans if span.acts],
    )


def _by(label: str, values: Mapping[str, float | None], parts: float = 1) -> list[tuple[dict[str, str], float | None]]:
    """Return each value with its label, divided into so many parts."""
    return [({label: name}, None if value is None else value / parts) for name, value in values.items()]


def endpoint(text: Callable[[], str]) -> Starlette:
    """Return the application; it answers GET /metrics of this machine only."""

    async def metrics(request: Request) -> Response:
        if not is_loopback(request.headers.get("host", "")):
            return PlainTextResponse("127.0.0.1 or localhost only\n", 400)
        return PlainTextResponse(text(), media_type=TYPE)

    return Starlette(routes=[Route("/metrics", metrics)])
