"""Fakes of servers that answer for their parts."""

import pytest


def let_the_server_answer(monkeypatch: pytest.MonkeyPatch, part: type, **methods: str) -> None:
    """Have methods of `Replica`, `SemiSync` and so on ask the server itself, by its method of the name given."""
    for name, its_own in methods.items():

        def ask(self, *args, its_own: str = its_own):
            return getattr(self.server, its_own)(*args)

        monkeypatch.setattr(part, name, ask)
