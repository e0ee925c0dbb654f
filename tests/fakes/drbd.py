"""The fake world's replicated disk: two machines that answer as `guest resource …` does, and the load that they bear.

A commit is a write on the primary's disk and, where the peer is there, one on the peer's, which is flushed after it
unless it was told not to. What the peer is told of its network makes no difference.
"""

import re
from random import Random

from replication_lab.model.lab.disk import Limits
from replication_lab.world.disks.spindle import settings_of

from tests.fakes.disks import FakeDisk

# Of DRBD 8.4, those that an experiment changes.
DEFAULTS = {"disk-flushes": "yes", "al-extents": "1237", "max-buffers": "2048", "max-epoch-size": "2048"}
CLIENTS, OF_LOADS = 4, 0.01
DISK_KBPS = 60_000.0
# Statements of a transaction that read, and that write.
READS, WRITES = 14, 4
# The processor time of a transaction on disks that cost nothing, in microseconds.
PROCESSOR_US = 2_000
PRINTED = """    queries performed:
        read:                            {reads}
        write:                           {writes}
    transactions:                        {transactions} ({rate:.2f} per sec.)
    total time:                          {seconds:.4f}s
Latency (ms):
         min:                                    {low:.2f}
         avg:                                    {mean:.2f}
         max:                                    {high:.2f}
         95th percentile:                        {most:.2f}
"""


class FakeResource:
    """The resource `lab` of two machines; the first is the primary."""

    def __init__(self, nodes: list[str], dice: Random):
        self.nodes, self._dice = nodes, dice
        self.disks = {node: FakeDisk(f"{node}-disk1", settings_of(Limits(write_cache=True))) for node in nodes}
        self.options: dict[str, set[str]] = {node: set() for node in nodes}
        # What a comparison would find to differ, and what is known to.
        self.connected, self.rotten_kib, self.differing_kib = True, 0, 0
        self.written_kib = dict.fromkeys(nodes, 0)
        # An option is taken, and not acted on; a comparison begins, and does not come to its end.
        self.deaf = self.breaks_off = False
        # How often the machines have met, and compared their disks: the fake's clock of such moments.
        self.met, self.compared = 1, 0

    def told(self, node: str, word: str, *words: str) -> str:
        """Return what `guest resource WORD…` prints on a machine."""
        if word == "status":
            return self._status(node)
        if word == "settings":
            return self._settings(node)
        if word == "options" and not self.deaf:
            self.options[node] |= set(words[1:])
        if word == "verify" and not self.breaks_off:
            self.differing_kib = self.rotten_kib
            self.compared += 1
        if word == "adjust":
            self.options[node].clear()
        if word in ("connect", "adjust", "disconnect"):
            self.met += word != "disconnect" and not self.connected
            self.connected = word != "disconnect"
        return ""

    def _settings(self, node: str) -> str:
        """Return the options in force, as drbdsetup prints them; without a connection none of a connection's."""
        given = dict(word.removeprefix("--").split("=") for word in self.options[node])
        stands_by = not self.connected and node != self.nodes[0]
        options = {name: value for name, value in (DEFAULTS | given).items() if not (stands_by and "max-" in name)}
        return "".join(f"\t{name}\t{value}; # default\n" for name, value in options.items())

    def _status(self, node: str) -> str:
        roles = ("Primary", "Secondary") if node == self.nodes[0] else ("Secondary", "Primary")
        connection = "Connected" if self.connected else "WFConnection" if roles[0] == "Primary" else "StandAlone"
        peer = (roles[1], "UpToDate") if self.connected else ("Unknown", "DUnknown")
        order = "f" if self._flushes(node) else "d"
        return (
            f" 0: cs:{connection} ro:{roles[0]}/{peer[0]} ds:UpToDate/{peer[1]} {self.protocol} r-----\n"
            f"    ns:0 nr:0 dw:{self.written_kib[node]} dr:0 wo:{order} oos:{self.differing_kib}\n"
            f"connected-at {self.met}\ncompared-at {self.compared}\n"
        )

    @property
    def protocol(self) -> str:
        """One for both machines; C unless they are told otherwise."""
        spoken = [word.rpartition("=")[2] for word in self.options[self.nodes[0]] if word.startswith("--protocol=")]
        return spoken[0] if spoken else "C"

    def _flushes(self, node: str) -> bool:
        return "--disk-flushes=no" not in self.options[node]

    def copies(self, dd: str, link_kbps: float) -> str:
        """Return what dd prints after writing a file; the slower of disk and link determines the rate."""
        block, count = re.search(r"bs=(\d+)M count=(\d+)", dd).groups()
        size = int(block) * int(count) << 20
        kbps = min(DISK_KBPS, link_kbps) if self.connected else DISK_KBPS
        for node in self.nodes if self.connected else self.nodes[:1]:
            self.written_kib[node] += size >> 10
        seconds = size / 1000 / kbps / self._dice.lognormvariate(0, OF_LOADS)
        return f"{size} bytes ({size / 1e6:.0f} MB, {size >> 20} MiB) copied, {seconds:.5f} s, some MB/s\n"

    def transacts(self, seconds: float) -> str:
        """Return what sysbench prints after a load of this many seconds."""
        primary, peer = (self.disks[node] for node in self.nodes)
        flushes = self.connected and self._flushes(self.nodes[1])
        cost = primary.acting["write_us"]
        if self.connected:
            cost = max(cost, peer.acting["write_us"] + flushes * peer.acting["flush_us"])
        each = max(cost, PROCESSOR_US) * self._dice.lognormvariate(0, OF_LOADS)
        transactions = int(seconds * 1e6 / each)
        for disk, flushed in ((primary, False), *([(peer, flushes)] if self.connected else [])):
            disk.serve("write", transactions)
            disk.flush(transactions * flushed)
        for disk in (primary, peer):
            disk.pass_(seconds)
        mean = each * CLIENTS / 1000
        return PRINTED.format(
            reads=transactions * READS,
            writes=transactions * WRITES,
            transactions=transactions,
            rate=transactions / seconds,
            seconds=seconds,
            low=mean * 0.4,
            mean=mean,
            high=mean * 3,
            most=mean * 2,
        )
