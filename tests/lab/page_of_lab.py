"""The live page of a real lab by its requests, without a browser."""

import http.client
import json
import secrets
from contextlib import closing, contextmanager

SECONDS = 60


class Browser:
    """Requests like those of the page, with a session that the token has let in."""

    def __init__(self, address):
        self.host, _, token = address.removeprefix("http://").partition("/#token=")
        self.headers = {"Authorization": f"Bearer {secrets.token_urlsafe(24)}", "Origin": f"http://{self.host}"}
        answer, _ = self._ask("POST", "/session", {**self.headers, "X-Lab-Token": token})
        assert answer.status == 204

    def _ask(self, method, path, headers, body=None):
        connection = http.client.HTTPConnection(self.host, timeout=SECONDS)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer, connection

    def send(self, method, path, body):
        headers = {**self.headers, "Content-Type": "application/json"}
        answer, connection = self._ask(method, path, headers, json.dumps(body))
        with closing(connection):
            return answer.status, json.loads(answer.read())

    @contextmanager
    def events(self):
        """Yield the stream's events as they come: (name, data)."""
        answer, connection = self._ask("GET", "/events", self.headers)
        with closing(connection):
            yield _events(answer)


def _events(answer):
    name = ""
    for line in answer:
        if line.startswith(b"event: "):
            name = line[7:].decode().strip()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def until(events, holds, most=40):
    """Return the first state for which this holds, and the number of samples until then."""
    samples = 0
    for name, data in events:
        if name == "state":
            samples += 1
            if holds(data):
                return data, samples
        assert samples < most, data
    raise AssertionError("the stream has ended")
