"""The page's server, as an application for any ASGI server: its files, the stream of events, and the commands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from replication_lab.live.access import HEADERS, READS, TOKEN_HEADER, Access, is_loopback, is_of_page, session_of
from replication_lab.live.session import Impossible, Shown, Unknown, ViewSession
from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.live.view import Accepted, ActOnNode, ChangeLink, CommandRefused, Gone, Recording, SaveDrill
from replication_lab.world import folders

PAGE = "live.html"
BODY_BYTES = 10_000
# A viewer that does not read misses states, and gets the newest ones when it reads again.
WAITING = 5
Body = TypeVar("Body", bound=msgspec.Struct)
# The status of an answer to a command that was not done; that of a LabError is 400.
STATUS: dict[type[Exception], int] = {Unknown: 404, Impossible: 409}


def application(viewed: ViewSession, access: Access, assets: Path) -> ASGIApp:
    """Return the application; apart from its files, only requests with a session that `access` knows get to it."""

    async def events(_request: Request) -> Response:
        return StreamingResponse(_stream(viewed), media_type="text/event-stream")

    async def page(_request: Request) -> Response:
        return FileResponse(assets / PAGE)

    async def change_link(request: Request) -> Response:
        asked = await _body(request, ChangeLink)
        return await _done(viewed.change_link, request.path_params["name"], asked.condition)

    async def act_on_node(request: Request) -> Response:
        names = request.path_params
        return await _done(viewed.act_on_node, names["name"], names["action"], await _body(request, ActOnNode))

    async def check(_request: Request) -> Response:
        return await _done(viewed.check_ledger)

    async def record(request: Request) -> Response:
        return await _done(viewed.record, (await _body(request, Recording)).on)

    async def drill(request: Request) -> Response:
        return await _done(viewed.save_drill, (await _body(request, SaveDrill)).name)

    routes = [
        Route("/", page),
        Route("/events", events),
        Route("/links/{name}", change_link, methods=["PATCH"]),
        Route("/nodes/{name}/{action}", act_on_node, methods=["POST"]),
        Route("/ledger/check", check, methods=["POST"]),
        Route("/record", record, methods=["POST"]),
        Route("/drill", drill, methods=["POST"]),
        Mount("/assets", StaticFiles(directory=assets)),
    ]
    handlers: dict[Any, Any] = {LabError: _refused, Unknown: _refused, Impossible: _refused, HTTPException: _http}
    return _Guard(Starlette(routes=routes, exception_handlers=handlers), access)


class _Guard:
    """Lets only requests with a known session pass, and adds the headers that protect the page to every answer."""

    def __init__(self, app: ASGIApp, access: Access):
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # A websocket: there is none.
            await send({"type": "websocket.close", "code": 1008})
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", []), *headers]}
            await send(message)

        refusal = self._answer(Request(scope))
        await (refusal or self._app)(scope, receive, protected)

    def _answer(self, request: Request) -> Response | None:
        """Return the answer to a request that must not reach the application; None for one that may."""
        host = request.headers.get("host", "")
        if not is_loopback(host):
            return _json(
                CommandRefused(
                    f"the request names the host {host!r}, which is not this machine", "127.0.0.1 or localhost"
                ),
                400,
            )
        if not is_of_page(request.method, request.headers):
            return _json(CommandRefused("the request was not sent by this page", "the page's own Origin"), 403)
        session, path = session_of(request.headers), request.scope["path"]
        if request.method in READS and (path == "/" or path.startswith("/assets/")):
            # A browser asks for these without a header. They say nothing about the lab.
            return None
        if path == "/session" and request.method == "POST":
            known = self._access.admit(session, request.headers.get(TOKEN_HEADER, ""))
            return Response(status_code=204) if known else _closed()
        return None if self._access.knows(session) else _closed()


def _closed() -> Response:
    return PlainTextResponse("Open the address that lab live printed last: it contains the token.\n", 403)


async def _stream(viewed: ViewSession) -> AsyncIterator[bytes]:
    """Yield the events of one viewer until the lab is gone."""
    loop, states = asyncio.get_running_loop(), asyncio.Queue[Shown](WAITING)

    def put(shown: Shown) -> None:
        if states.full():
            states.get_nowait()
        states.put_nowait(shown)

    end = viewed.subscribe(lambda shown: loop.call_soon_threadsafe(put, shown))
    try:
        yield _event("hello", viewed.hello())
        while True:
            shown = await states.get()
            yield _event("gone" if isinstance(shown, Gone) else "state", shown)
            if isinstance(shown, Gone):
                return
    finally:
        end()


def _event(name: str, data: msgspec.Struct) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


async def _body(request: Request, kind: type[Body]) -> Body:
    """Return a request's body; LabError for one that does not fit. An empty one stands for {}."""
    text = b""
    async for part in request.stream():
        text += part
        if len(text) > BODY_BYTES:
            raise LabError("the body of the request is too long", f"at most {BODY_BYTES} bytes")
    with as_lab_error(
        msgspec.DecodeError, "the body of the request is not valid", "the JSON that docs/live.md describes"
    ):
        return msgspec.json.decode(text or b"{}", type=kind)


async def _done(command: Callable[..., Accepted], *asked: Any) -> Response:
    return _json(await run_in_threadpool(command, *asked), 202)


def _json(content: msgspec.Struct, status: int) -> Response:
    return Response(msgspec.json.encode(content), status, media_type="application/json")


async def _refused(_request: Request, error: Exception) -> Response:
    told = error if isinstance(error, LabError) else error.__cause__
    said = (told.found, told.expected, told.next_step) if isinstance(told, LabError) else (str(told),)
    return _json(CommandRefused(*map(folders.as_typed, said)), STATUS.get(type(error), 400))


async def _http(_request: Request, error: HTTPException) -> Response:
    return _json(CommandRefused(error.detail), error.status_code)
