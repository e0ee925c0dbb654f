"""Fakes of labs and servers that answer for their parts."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.world import catalogue
from replication_lab.world.client_place import HERE
from replication_lab.world.mysql.dialects import Dialect, dialects

from tests.fakes.link import FakeProxies, OneToxiproxy


class FakeService:
    """A service of a fake lab whose own methods take the service's name."""

    # The lab is on one engine.
    site = ""

    def __init__(self, lab: Any, name: str):
        self.lab, self.name = lab, name

    def state(self) -> tuple[str, int]:
        return self.lab.state_of(self.name)

    @property
    def container(self) -> Any:
        return self.lab.container_of(self.name)

    @property
    def dialect(self) -> Dialect:
        return dialects()[catalogue.engines()[self.lab.engine].dialect]

    def __getattr__(self, method: str) -> Callable[..., Any]:
        ask = getattr(self.lab, method)
        return lambda *arguments, **options: ask(self.name, *arguments, **options)


class LabOfNames(OneToxiproxy):
    """A fake lab whose methods take a service's name first."""

    name, manager = "lab-fake", None
    # Clients run in this process.
    clients_are_beside, clients_place = False, HERE

    def for_clients(self, name: str) -> Any:
        return self.node(name).server()

    def node_at(self, host: str) -> str:
        return host

    def states(self) -> dict[str, str]:
        """Return no container's state; a fake whose nodes can be frozen has its own."""
        return {}

    def node(self, name: str) -> FakeService:
        return FakeService(self, name)

    def container_of(self, name: str) -> Any:
        return SimpleNamespace(name=f"{self.name}-{name}-1")

    def service(self, name: str) -> FakeService:
        return FakeService(self, name)


class LabOfServers(LabOfNames):
    """A fake lab of a topology with the servers given, and for each other node one that `make` makes of its name."""

    def __init__(self, topology: str, make: Callable[[str], Any], **servers: Any):
        self.name, self.topology = f"lab-{topology}", catalogue.topology(topology)
        self.servers = {node.name: make(node.name) for node in self.topology.nodes} | servers
        self.toxiproxy = FakeProxies(self.topology)

    def server(self, name: str) -> Any:
        return self.servers[name]


def let_the_server_answer(monkeypatch: pytest.MonkeyPatch, part: type, **methods: str) -> None:
    """Have methods of `Replica`, `SemiSync` and so on ask the server itself, by its method of the name given."""
    for name, its_own in methods.items():

        def ask(self, *args, its_own: str = its_own, **options):
            return getattr(self.server, its_own)(*args, **options)

        monkeypatch.setattr(part, name, ask)
