"""Does the page's server let only its own page read and change a lab, and does every viewer see the same?"""

import asyncio
import re

import msgspec
import pytest
from replication_lab.live.access import Access, is_loopback
from replication_lab.live.page import PAGE, application

from tests.fakes.asgi import ask
from tests.fakes.live import LINK, FakeLive

OWN = {"origin": "http://127.0.0.1:8000"}
CHANGE = b'{"condition": "200ms"}'
EVERYTHING = [
    ("GET", "/"),
    ("GET", "/events"),
    ("GET", f"/assets/{PAGE}"),
    ("PATCH", f"/links/{LINK}"),
    ("POST", "/nodes/source/kill"),
    ("POST", "/ledger/check"),
    ("POST", "/record"),
    ("POST", "/drill"),
]


class Served:
    def __init__(self, lab, assets):
        (assets / PAGE).write_text("<!doctype html>")
        self.access = Access()
        self.app = application(lab, self.access, assets)

    def __call__(self, method, path, **options):
        return asyncio.run(ask(self.app, method, path, **options))


@pytest.fixture
def lab():
    return FakeLive()


@pytest.fixture
def served(lab, tmp_path):
    """Send requests to the page of a scripted lab: `served(method, path, …)`; `served.access` has its token."""
    return Served(lab, tmp_path)


@pytest.fixture
def cookie(served):
    """Return the header of a browser that has used the token."""
    return _cookie(served("GET", f"/?token={served.access.token}"))


def _cookie(answer):
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
def test_nothing_is_read_or_changed_without_the_token(served, lab, method, path):
    """Nor with a wrong one."""
    assert served(method, path, headers=OWN, body=CHANGE).status == 403
    assert served(method, f"{path}?token=wrong", headers=OWN, body=CHANGE).status == 403
    assert lab.asked == [] and lab.viewers == []


def test_the_token_gives_one_session_that_scripts_and_other_pages_cannot_use(served):
    """A second browser needs the next token."""
    first = f"/?token={served.access.token}"
    answer = served("GET", first)

    assert answer.status == 303 and answer.headers["location"] == "/"
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {
        part.strip() for part in answer.headers["set-cookie"].split(";")
    }
    assert served("GET", first).status == 403
    assert served("GET", "/", headers=_cookie(answer)).status == 200
    assert served("GET", f"/?token={served.access.token}").status == 303


def test_a_browser_with_a_session_may_open_an_old_address_again(served, cookie):
    """It is sent on to the page; the token in the address is not looked at."""
    assert served("GET", "/?token=used", headers=cookie).status == 303


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "localhost:x"])
def test_a_foreign_host_is_refused_even_with_the_cookie(served, cookie, host):
    """A page of another name that leads to 127.0.0.1 gets nothing."""
    assert served("GET", "/", headers={**cookie, "host": host}).status == 400


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "[::1]"])
def test_names_of_this_machine_are_accepted(host):
    """With or without a port, in any case of letters."""
    assert is_loopback(host)


@pytest.mark.parametrize("origin", [{}, {"origin": "http://evil.example"}, {"origin": "null"}])
@pytest.mark.parametrize(("method", "path"), [each for each in EVERYTHING if each[0] != "GET"])
def test_a_change_needs_the_pages_own_origin(served, cookie, lab, method, path, origin):
    """The cookie alone is not enough: a form of another page might bring it along."""
    assert served(method, path, headers={**cookie, **origin}, body=CHANGE).status == 403
    assert lab.asked == []


@pytest.mark.parametrize("path", ["/", "/events", "/missing", "/assets/../access.py"])
def test_every_answer_forbids_other_sources(served, cookie, path):
    """Those that are refused, too."""
    for headers in ({}, cookie):
        answer = served("GET", path, headers=headers, until=lambda _: True)
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"


def events(body):
    """Return (name, data) of each whole event."""
    found = re.findall(r"event: (.*)\ndata: (.*)\n\n", body.decode())
    return [(name, msgspec.json.decode(data)) for name, data in found]


def test_two_viewers_see_the_same_until_the_lab_is_gone(served, cookie, lab):
    """Then both streams end by themselves."""

    async def watched():
        viewers = [asyncio.create_task(ask(served.app, "GET", "/events", headers=cookie)) for _ in range(2)]
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


def test_a_viewer_that_leaves_is_forgotten(served, cookie, lab):
    """Nothing is kept for a browser that was closed."""
    served("GET", "/events", headers=cookie, until=lambda body: b"hello" in body)

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
def test_a_command_of_the_page_is_accepted(served, cookie, lab, method, path, body, asked):
    """It reaches the lab with its names and its body, and is answered at once."""
    answer = served(method, path, headers={**cookie, **OWN}, body=body)

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
def test_a_command_that_does_not_fit_is_refused_with_the_reason(served, cookie, lab, path, body, status):
    """Nothing of it reaches the lab."""
    method = "PATCH" if path.startswith("/links") else "POST"
    answer = served(method, path, headers={**cookie, **OWN}, body=body)

    assert answer.status == status and msgspec.json.decode(answer.body)["error"]
    assert lab.asked == []
