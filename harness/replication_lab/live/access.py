"""Who may use the page: a token that works once, the session that it begins, and the checks of every request."""

import hmac
import secrets
from collections.abc import Callable, Mapping

from replication_lab.world import clock

# A name that leads to this machine only. Another name in the header Host belongs to a page of somebody else whose
# address was changed to 127.0.0.1 after it had been loaded.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
TOKEN_HEADER = "x-lab-token"
TOKEN_SECONDS = 600
SECRET_LENGTH = 32
READS = frozenset({"GET", "HEAD"})
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Access:
    """The token that lets in the next tab, and the sessions of those that came before; `renewed` gets each new token.

    A session is a secret that the page makes itself and sends in a header. A cookie would not do: browsers send it to
    every port of this machine, so also to the server of another user.
    """

    def __init__(self, renewed: Callable[[str], object] = lambda _: None, timer: Callable[[], float] = clock.timer):
        self._renewed, self._timer = renewed, timer
        self._sessions: set[str] = set()
        self._renew()

    def _renew(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._valid_until = self._timer() + TOKEN_SECONDS

    def admit(self, session: str, token: str) -> bool:
        """Return whether the session is known, or begins with this token, which is then used up.

        A token that has expired is refused and replaced by a new one, which is passed to `renewed`.
        """
        if self.knows(session):
            return True
        if len(session) < SECRET_LENGTH or not _same(token, self.token):
            return False
        is_valid = self._timer() < self._valid_until
        if is_valid:
            self._sessions.add(session)
        self._renew()
        self._renewed(self.token)
        return is_valid

    def knows(self, session: str) -> bool:
        return any([_same(session, known) for known in self._sessions])


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(), known.encode())


def is_loopback(host: str) -> bool:
    """Return whether a header Host names this machine, with or without a port."""
    name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    if not name:
        name, port = port, ""
    return name.lower() in LOOPBACK and (not port or port.isdecimal())


def is_of_page(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether no other page sent a request; one that changes something must name the page as its origin."""
    own = f"http://{headers.get('host', '')}"
    return headers.get("origin", own if method in READS else "") == own


def session_of(headers: Mapping[str, str]) -> str:
    """Return the session that a request carries; an empty text if it has none."""
    kind, _, session = headers.get("authorization", "").partition(" ")
    return session if kind == "Bearer" else ""
