"""Requests to an ASGI application without a socket, and streams that end when a test has read enough.

Starlette's own test client needs another HTTP library, and waits for the end of a stream, which a page's has not.
"""

import asyncio
from dataclasses import dataclass, field


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


async def ask(app, method, path, *, headers=None, body=b"", until=None):
    """Return the answer to a request; of a stream, what was sent when `until` says that its body is enough."""
    path, _, query = path.partition("?")
    given = {"host": "127.0.0.1:8000", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
    }
    answer, enough = Answer(), asyncio.Event()
    sent = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if sent:
            return sent.pop()
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            if until is not None and until(answer.body):
                enough.set()

    await app(scope, receive, send)
    return answer
