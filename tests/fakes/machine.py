"""A machine and its disk that faults act on, and what their proofs doubt."""

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.disk import Limits
from replication_lab.world import catalogue, clock
from replication_lab.world.disks.spindle import Stats

from tests.fakes.parts import LabOfNames

NODES = ["server"]


class Connection:
    def close(self):
        pass


class Machine(LabOfNames):
    """A lab of one node whose container obeys, and whose server answers while it runs."""

    name, topology, is_attached = "lab-single", catalogue.topology("single"), False

    def __init__(self):
        self.status, self.code, self.starts = "running", 0, 1
        self.quota, self.memory, self.periods, self.commands = 0, 0, 0, []
        self.ahead, self.in_use = 0, False

    def administrator(self, node):
        return "root", "fake"

    def _ended(self, code):
        self.status, self.code = "exited", code

    owners = ()

    def is_in_use(self):
        return self.in_use

    def bound(self, node, port):
        return "127.0.0.1", 30000 + self.starts

    def kill(self, node, signal="SIGKILL"):
        self._ended({"SIGKILL": 137, "SIGABRT": 2}.get(signal, 0))

    def stop(self, node):
        self._ended(0)

    def start_again(self, node):
        self.status, self.starts = "running", self.starts + 1

    def started_at(self, node):
        return f"2030-01-01T12:00:0{self.starts}"

    def pause(self, node):
        self.status = "paused"

    def unpause(self, node):
        self.status = "running"

    def state_of(self, node):
        return self.status, self.code

    def logs(self, node, lines=12, seconds=None):
        return "\n".join(["its first words", "its last words"][-lines if lines != "all" else 0 :])

    def follow_logs(self, node, lines, seconds=None):
        yield self.logs(node, lines)
        yield "\nits newest words\x1b[2J\n"

    def cpu_quota_us(self, node):
        return self.quota

    def limit_cpu(self, node, quota, period):
        self.quota = quota

    def throttled(self, node):
        self.periods += bool(self.quota)
        return self.periods

    def memory_mib(self, node):
        return 100.0

    def memory_limit(self, node):
        return self.memory

    def memory_used(self, node):
        return self.memory

    def set_clock(self, node, seconds):
        self.ahead = seconds

    def seconds_ahead(self):
        return self.ahead

    def limit_memory(self, node, limit):
        self.memory = limit

    def run(self, node, *command):
        self.commands.append(command)
        return "its output"

    # As a server.

    def server(self, node):
        return self

    def version(self):
        if self.status != "running":
            raise LabError("it does not answer", "a connection")
        return "fake"

    def connect(self, answer_seconds=1.0):
        self.version()
        return Connection()


class Disk:
    """A disk that a load keeps busy; at each look another second has passed."""

    def __init__(self):
        self.failed, self.errors, self.now = False, 0, Limits(write_iops=400)
        self.loaded, self.seconds, self.writes = True, 0, 0

    def limits(self):
        return self.now

    def fail(self):
        self.failed = True

    def stats(self):
        self.seconds += 1
        self.writes += self.now.write_iops if self.loaded else 0
        self.errors += self.failed and self.loaded
        busy = self.seconds * self.loaded * 1_000_000
        return Stats(0, self.writes, 0, self.errors, 0, 0, 0, busy, self.seconds * 1_000_000, self.failed)


def doubts(proofs: list[Proof]) -> list[str]:
    assert proofs
    return [proof.doubt for proof in proofs if proof.doubt]


def machine_without_waiting(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a lab of one machine, in which every wait ends at once."""

    def wait_until(condition, what, seconds, every=0.05, hint=""):
        if not (found := condition()):
            raise LabError(f"{what} did not come", "it")
        return found

    monkeypatch.setattr(clock, "wait_until", wait_until)
    return Machine()
