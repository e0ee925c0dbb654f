"""What programs in the containers of the fake world print."""

import heapq
import itertools
import math
import re
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from replication_lab.model.core.errors import LabError
from replication_lab.world.disks.array import DATA

from tests.fakes.disks import device_of
from tests.fakes.session import MISSING
from tests.fakes.slap import CHOICE, SLAPS

if TYPE_CHECKING:
    from tests.fakes.lab import FakeLab

# What a script says of its transactions, and the logarithm of the milliseconds that one takes that reads.
WRITES = re.compile(rb"writes = (true|false)")
READ = -0.7
# A program's arguments in, what it prints out; the first one is the service.
Program = Callable[[str, tuple[str, ...]], str]


class Programs:
    """The programs that a lab's containers can run, by name."""

    def __init__(self, lab: "FakeLab"):
        self._lab = lab
        self._programs: dict[str, Program] = {
            "cat": self._mounts,
            "sh": lambda _service, _command: "",
            "printenv": lambda _service, _command: "fake\n",
            "guest": self._in_guest,
            "sysbench": lambda service, command: self._scripts[command[1].partition(".")[0]](service, command),
            **dict.fromkeys(SLAPS, self._grouped),
        }
        self._scripts: dict[str, Program] = {
            "/tmp/inserts": self._inserted,
            "/tmp/row_updates": self._changed,
            "/tmp/timed_script": self._timed,
            "oltp_read_write": self._transacted,
        }

    def run(self, service: str, command: tuple[str, ...]) -> str:
        if service.endswith("-array"):
            return self._of_array(service, command)
        return self._programs[command[0]](service, command)

    def _of_array(self, service: str, command: tuple[str, ...]) -> str:
        if "fio" in command and not self._lab.has_committed:
            self._lab.go_through_trouble()
        return self._lab.arrays[service.removesuffix("-array")].run(command)

    def _mounts(self, node: str, _command: tuple[str, ...]) -> str:
        """Return /proc/mounts of a node, whose data are on its array, if it has one."""
        return f"{device_of(node)} {DATA} btrfs rw 0 0" if node in self._lab.arrays else ""

    def _grouped(self, _service: str, command: tuple[str, ...]) -> str:
        self._lab.go_through_trouble()
        source = self._lab.node(self._lab.topology.source.name).server()
        return self._lab.grouping.run(command, source.globals_.get(CHOICE))

    def _in_guest(self, node: str, command: tuple[str, ...]) -> str:
        _, program, *arguments = command
        if program == "resource":
            return self._lab.resource.told(node, *arguments)
        if not command[-1].startswith("dd "):
            return ""
        self._lab.go_through_trouble()
        links = self._lab.topology.links
        return self._lab.resource.copies(
            command[-1], min(self._lab.link(link.name).kilobytes_per_second() for link in links)
        )

    def _transacted(self, _service: str, command: tuple[str, ...]) -> str:
        """Return what sysbench prints after its OLTP load; nothing after filling the table."""
        seconds = float(_options(command).get("time", 0))
        if not seconds:
            return ""
        self._lab.go_through_trouble()
        return self._lab.resource.transacts(seconds)

    def _changed(self, _service: str, command: tuple[str, ...]) -> str:
        """Return what sysbench prints after workloads/row_updates.lua."""
        rows = int(_options(command)["events"])
        self._lab.race.change(rows)
        self._lab.go_through_trouble()
        return f"    total number of events:              {rows}\n"

    def _inserted(self, _service: str, command: tuple[str, ...]) -> str:
        """Return what the clients of workloads/inserts.lua print."""
        options = _options(command)
        clients, rows, seconds = int(options["threads"]), int(options["events"]), float(options["time"])
        think = int(options.get("think", 0)) / 1000
        lines = []
        for _ in range(clients):
            mine = self._client(clients, rows // clients, seconds * 1000, think)
            lines.append(_client(mine, [ms + think * (number > 0) for number, ms in enumerate(mine)]))
        return "".join(lines)

    def _timed(self, _service: str, command: tuple[str, ...]) -> str:
        """Return what the clients of workloads/timed_script.lua print: their transactions come one after another."""
        options = _options(command)
        if MISSING in self._lab.files["/tmp/load.lua"].decode():
            raise LabError(
                f"`sysbench` in load ended with status 1:\n  Table 'lab.{MISSING}' doesn't exist", "exit status 0"
            )
        if rate := float(options.get("lab-rate", 0)):
            return self._paced(options, rate)
        # Without a time it makes tables, or tries each transaction out.
        if not float(options.get("time", 0)):
            return ""
        clients, seconds, dice = int(options["threads"]), float(options["time"]), Random(options["rand-seed"])
        writes = [word == b"true" for word in WRITES.findall(self._lab.files["/tmp/load.lua"])] or [False]
        lines = []
        for _ in range(clients):
            kinds, latencies, wrote, spent = itertools.cycle(writes), [], [], 0.0
            while spent < seconds * 1000:
                is_write = next(kinds)
                latencies.append(self._lab.commit(clients).answered if is_write else dice.lognormvariate(READ, 0.1))
                spent += latencies[-1]
                wrote += latencies[-1:] if is_write else []
            lines.append(_client(latencies, latencies))
            lines += [f"wrote {len(wrote)} {round(min(wrote) * 1000)}\n"] if wrote else []
        return "".join(lines)

    def _paced(self, options: dict[str, str], rate: float) -> str:
        """Return what the clients print at a rate: the one that is free first takes the next transaction."""
        clients, seconds = int(options["threads"]), float(options["lab-seconds"])
        free, latencies, fastest, ends = [0.0] * clients, [], math.inf, [0.0]
        for number in range(int(options["lab-events"])):
            intended = number * 1000 / rate
            began = max(intended, heapq.heappop(free))
            if began >= seconds * 1000:
                break
            took = self._lab.commit(clients).answered
            heapq.heappush(free, began + took)
            latencies.append(began + took - intended)
            fastest = min(fastest, took)
            ends.append(began + took)
        gaps = [later - before for before, later in itertools.pairwise(ends)]
        return f"{_client(latencies, gaps)}wrote {len(latencies)} {round(fastest * 1000)}\n"

    def _client(self, clients: int, rows: int, milliseconds: float, think: float) -> list[float]:
        """Return one client's latencies in ms: of this many rows, or until its time is over, whichever comes first."""
        mine, spent = [], 0.0
        while (not rows or len(mine) < rows) and (not milliseconds or spent < milliseconds):
            mine.append(self._lab.commit(clients).answered)
            spent += mine[-1] + think
        return mine


def _client(latencies: list[float], gaps: list[float]) -> str:
    """Return what a client prints at its end; `gaps` are the ms from one answer to the next one."""
    times, ends = (" ".join(str(round(ms * 1000)) for ms in each) for each in (latencies, gaps))
    return f"client 0.000000 {sum(gaps) / 1000:.6f} {times}\nends {ends}\n"


def _options(command: tuple[str, ...]) -> dict[str, str]:
    return dict(part.removeprefix("--").split("=", 1) for part in command if part.startswith("--") and "=" in part)
