"""Who may use the page: a token that works once, the session that it begins, and the checks of every request."""

import hmac
import secrets
from collections.abc import Callable, Mapping

# A name that leads to this machine only. Another name in the header Host belongs to a page of somebody else whose
# address was changed to 127.0.0.1 after it had been loaded.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
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
    """The token of the next browser, and the sessions of those that came before; `renewed` gets each new token."""

    def __init__(self, renewed: Callable[[str], object] = lambda _: None):
        self._renewed = renewed
        self._sessions: set[str] = set()
        self.token = secrets.token_urlsafe(24)

    def begin(self, token: str) -> str | None:
        """Return a new session for the token, which is then used up; None for any other text."""
        if not _same(token, self.token):
            return None
        self.token = secrets.token_urlsafe(24)
        session = secrets.token_urlsafe(24)
        self._sessions.add(session)
        self._renewed(self.token)
        return session

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
    """Return whether a request that changes something was sent by the page itself; reading needs no proof."""
    return method in READS or headers.get("origin", "") == f"http://{headers.get('host', '')}"
