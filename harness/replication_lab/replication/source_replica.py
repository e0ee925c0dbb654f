"""A source and those who follow it: whole when all replicate, and a source that waits for them does so again."""

from replication_lab.model.drill import View
from replication_lab.model.errors import LabError
from replication_lab.probes.semisync import wait_until_acknowledged
from replication_lab.replication import failover
from replication_lab.replication.kind import Nodes
from replication_lab.world.docker.lab import Lab

# How far a replica may be behind at a look and be in step all the same: clients go on writing meanwhile.
STEP_SECONDS, ACKNOWLEDGED_SECONDS = 1, 3


class Followers(Nodes):
    """A source and its replicas, asynchronous or semi-synchronous."""

    whole = "replicating"

    def __init__(self, lab: Lab):
        super().__init__(lab)
        self.sources = {link.target: link.source for link in lab.topology.links}
        self._old: list[str] = []

    def view(self, name: str) -> View:
        found = self.server(name).replication()
        if found is None:
            return View(self._as_source(name))
        if found.healthy:
            return View("replicating", behind_s=found.lag_seconds)
        return View("not connected" if found.applying else "not applying")

    def _as_source(self, name: str) -> str:
        state = self.server(name).semisync()
        return f"semi-sync {'ON' if state.active else 'OFF'}" if state.enabled else "serving"

    def is_whole(self, name: str) -> bool:
        if name in self.sources:
            return self._is_in_step(name)
        if self.lab.topology.replication == "semisync":
            # The status is stale right after a change: a commit of our own tells.
            wait_until_acknowledged(self.server(name), ACKNOWLEDGED_SECONDS)
        return bool(self.server(name).version())

    def _is_in_step(self, name: str) -> bool:
        found = self.server(name).replication()
        if found is None or not found.healthy:
            return False
        self.server(name).wait_for(self.server(self.sources[name]).position(), STEP_SECONDS)
        return True

    def settle(self) -> None:
        # A relay before its leaf: the links are in that order.
        for name, source in self.sources.items():
            self.server(name).wait_for(self.server(source).position())

    def holders(self) -> dict[str, str]:
        return {name: self.sources.get(name, "") for name in self.names}

    def counted(self) -> dict[str, int]:
        name = next(name for name in self.names if name not in self.sources)
        found = self.server(name).semisync()
        return {"fallbacks": found.fallbacks} if found.enabled else {}

    def promote(self, name: str) -> None:
        self._old += [old for old in self.names if old not in self.sources]
        # A drill asks what is lost: a replica that is behind is promoted all the same.
        self._old += failover.failover(self.lab, name, behind=True).ahead
        self.sources = failover.sources(self.lab)
        self.sources |= dict.fromkeys(self._old, name)

    def rejoin(self) -> None:
        for name in self._old:
            failover.rejoin(self.lab, name, discard=True)
        if self._old and (left := set(self.names) - set(self.sources)) != {self._source()}:
            raise LabError(f"{', '.join(sorted(left))} follow nobody", "one source", "./lab status")

    def _source(self) -> str:
        return next(name for name in self.names if name not in self.sources)
