"""Does the page's server let only its own page read and change a lab, and does every viewer see the same?"""

import asyncio
import re

import msgspec
import pytest
from replication_lab.live.access import TOKEN_SECONDS, Access, is_loopback
from replication_lab.live.page import PAGE, application

from tests.fakes.asgi import ask
from tests.fakes.live import LINK, FakeLive

OWN = {"origin": "http://127.0.0.1:8000"}
SESSION = "a-secret-that-the-page-of-one-tab-has-made"
CHANGE = b'{"condition": "200ms"}'
FILES = [("GET", "/"), ("GET", f"/assets/{PAGE}")]
LABS = [
    ("GET", "/events"),
    ("PATCH", f"/links/{LINK}"),
    ("POST", "/nodes/source/kill"),
    ("POST", "/ledger/check"),
    ("POST", "/record"),
    ("POST", "/drill"),
]
EVERYTHING = [*FILES, *LABS, ("POST", "/session")]


class Served:
    def __init__(self, lab, assets):
        (assets / PAGE).write_text("<!doctype html>")
        self.now, self.renewed = 0.0, []
        self.access = Access(self.renewed.append, lambda: self.now)
        self.app = application(lab, self.access, assets)

    def __call__(self, method, path, **options):
        return asyncio.run(ask(self.app, method, path, **options))

    def begin(self, token, session=SESSION):
        """Send a token and a session as the page does; return the status."""
        return self("POST", "/session", headers={**OWN, **sent(session), "x-lab-token": token}).status


def sent(session):
    return {"authorization": f"Bearer {session}"}


@pytest.fixture
def lab():
    return FakeLive()


@pytest.fixture
def served(lab, tmp_path):
    """Send requests to the page of a scripted lab: `served(method, path, …)`; `served.access` has its token."""
    return Served(lab, tmp_path)


@pytest.fixture
def session(served):
    """Return the header of a page whose token was taken."""
    assert served.begin(served.access.token) == 204
    return sent(SESSION)


@pytest.mark.parametrize(("method", "path"), LABS)
def test_nothing_is_read_or_changed_without_a_session(served, lab, method, path):
    """Nor with a wrong one, with a token in the address or in a cookie, or with a token in place of a session."""
    token = served.access.token
    attempts = [
        (path, {}),
        (path, sent("wrong" * 10)),
        (f"{path}?token={token}", {}),
        (f"{path}?token={token}", sent(SESSION)),
        (path, {"cookie": f"lab_live_8000={token}; session={SESSION}"}),
        (path, sent(token)),
        (path, {**sent(SESSION), "x-lab-token": token}),
        (path, {"authorization": f"Basic {token}"}),
    ]
    for asked, headers in attempts:
        answer = served(method, asked, headers={**OWN, **headers}, body=CHANGE, until=lambda _: True)
        assert answer.status == 403
    assert lab.asked == [] and lab.viewers == []


def test_the_files_of_the_page_are_open_and_say_nothing_of_the_lab(served):
    """A browser asks for them without a header; a path that leads elsewhere is no file."""
    for method, path in FILES:
        assert served(method, path).status == 200
    for path in ("/assets/../events", "//events", "/assets/../../live/access.py", "/assets"):
        assert served("GET", path, until=lambda _: True).status in (403, 404)


def test_a_token_lets_in_one_session_once(served):
    """A second tab needs the next token; the first one may ask again, as if no answer had come."""
    token = served.access.token
    assert served.begin(token) == 204

    assert served.begin(token, "b" * 40) == 403
    assert served.begin(token) == 204 and served.begin("anything") == 204
    assert served("GET", "/events", headers=sent(SESSION), until=lambda _: True).status == 200
    assert served.begin(served.access.token, "b" * 40) == 204
    assert len(served.renewed) == 2 and len({token, *served.renewed}) == 3


@pytest.mark.parametrize("session", ["", "short", "é" * 10])
def test_a_session_that_could_be_guessed_is_refused(served, session):
    """The token stays valid for the page itself."""
    assert served.begin(served.access.token, session) == 403
    assert served.begin(served.access.token) == 204


def test_a_token_expires_and_a_new_one_is_told(served):
    """After ten minutes it opens nothing, and whoever tries it finds the next address in the terminal."""
    old = served.access.token
    served.now = TOKEN_SECONDS + 1

    assert served.begin(old) == 403 and served.renewed == [served.access.token] != [old]
    assert served.begin(old) == 403
    assert served.begin(served.access.token) == 204


def test_a_session_does_not_expire(served, session):
    """A page may be open for hours."""
    served.now = 100 * TOKEN_SECONDS
    assert served("GET", "/events", headers=session, until=lambda _: True).status == 200


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
def test_no_answer_sets_a_cookie(served, session, method, path):
    """A browser would send it to every port of this machine."""
    for headers in ({}, OWN, {**OWN, **session}, {**OWN, **session, "x-lab-token": served.access.token}):
        answer = served(method, path, headers=headers, body=b"", until=lambda _: True)
        assert answer.status and "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "localhost:x"])
@pytest.mark.parametrize("path", ["/", "/events"])
def test_a_foreign_host_is_refused_even_with_the_session(served, session, host, path):
    """A page of another name that leads to 127.0.0.1 gets nothing."""
    assert served("GET", path, headers={**session, "host": host}, until=lambda _: True).status == 400


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_accepted(host):
    """With or without a port, in any case of letters."""
    assert is_loopback(host)


@pytest.mark.parametrize("origin", [{}, {"origin": "http://evil.example"}, {"origin": "null"}])
@pytest.mark.parametrize(("method", "path"), [each for each in EVERYTHING if each[0] != "GET"])
def test_a_change_needs_the_pages_own_origin(served, session, lab, method, path, origin):
    """The session alone is not enough."""
    headers = {**session, **origin, "x-lab-token": served.access.token}
    assert served(method, path, headers=headers, body=CHANGE).status == 403
    assert lab.asked == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8001", "https://127.0.0.1:8000"])
@pytest.mark.parametrize("path", ["/", "/events"])
def test_a_read_for_another_origin_is_refused(served, session, lab, path, origin):
    """Another port of this machine is another origin."""
    assert served("GET", path, headers={**session, "origin": origin}, until=lambda _: True).status == 403
    assert lab.viewers == []


def test_a_forwarded_port_is_the_page_s_own_origin(served, lab):
    """`ssh -L 9000:127.0.0.1:8000`: the browser names port 9000 in Host and in Origin."""
    far = {"host": "localhost:9000", "origin": "http://localhost:9000", **sent(SESSION)}
    assert served("POST", "/session", headers={**far, "x-lab-token": served.access.token}).status == 204

    assert served("PATCH", f"/links/{LINK}", headers=far, body=CHANGE).status == 202
    assert served("PATCH", f"/links/{LINK}", headers={**far, **OWN}, body=CHANGE).status == 403


@pytest.mark.parametrize("path", ["/", "/events", "/missing", "/assets/../access.py"])
def test_every_answer_forbids_other_sources(served, session, path):
    """Those that are refused, too."""
    for headers in ({}, session):
        answer = served("GET", path, headers=headers, until=lambda _: True)
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"


def events(body):
    """Return (name, data) of each whole event."""
    found = re.findall(r"event: (.*)\ndata: (.*)\n\n", body.decode())
    return [(name, msgspec.json.decode(data)) for name, data in found]


def test_two_viewers_see_the_same_until_the_lab_is_gone(served, session, lab):
    """Then both streams end by themselves."""

    async def watched():
        viewers = [asyncio.create_task(ask(served.app, "GET", "/events", headers=session)) for _ in range(2)]
        while len(lab.viewers) < 2:
            await asyncio.sleep(0)
        lab.tick()
        lab.tick()
        lab.end("lab-semisync was removed")
        return [events(answer.body) for answer in await asyncio.gather(*viewers)]

    first, second = asyncio.run(watched())

    assert first == second
    assert [name for name, _ in first] == ["hello", "state", "state", "gone"]
    assert first[1][1]["links"][0]["name"] == LINK and first[-1][1] == {"why": "lab-semisync was removed"}
    assert lab.viewers == []


def test_a_viewer_that_leaves_is_forgotten(served, session, lab):
    """Nothing is kept for a browser that was closed."""
    served("GET", "/events", headers=session, until=lambda body: b"hello" in body)

    assert lab.viewers == []


@pytest.mark.parametrize(
    ("method", "path", "body", "asked"),
    [
        ("PATCH", f"/links/{LINK}", CHANGE, ("link", LINK, "200ms")),
        ("PATCH", f"/links/{LINK}", b'{"condition": null}', ("link", LINK, None)),
        ("POST", "/nodes/source/kill", b"", ("node", "source", "kill")),
        ("POST", "/ledger/check", b"{}", ("check",)),
        ("POST", "/record", b'{"on": true}', ("record", True)),
        ("POST", "/drill", b'{"name": "mine"}', ("drill", "mine")),
    ],
)
def test_a_command_of_the_page_is_accepted(served, session, lab, method, path, body, asked):
    """It reaches the lab with its names and its body, and is answered at once."""
    answer = served(method, path, headers={**session, **OWN}, body=body)

    assert answer.status == 202 and msgspec.json.decode(answer.body)["accepted"]
    assert lab.asked == [asked]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/links/nowhere", CHANGE, 404),
        (f"/links/{LINK}", b'{"condition": "40"}', 400),
        (f"/links/{LINK}", b"{}", 400),
        (f"/links/{LINK}", b'{"condition": "1ms", "more": 1}', 400),
        (f"/links/{LINK}", b'{"condition": "' + b"1" * 20_000 + b'"}', 400),
        ("/nodes/source/resume", b"", 409),
        ("/nodes/source/explode", b"", 404),
    ],
)
def test_a_command_that_does_not_fit_is_refused_with_the_reason(served, session, lab, path, body, status):
    """Nothing of it reaches the lab."""
    method = "PATCH" if path.startswith("/links") else "POST"
    answer = served(method, path, headers={**session, **OWN}, body=body)

    assert answer.status == status and msgspec.json.decode(answer.body)["error"]
    assert lab.asked == []
