"""The host's other processes and their CPU time, to name those that disturb a measurement."""

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path

import psutil

# A process of psutil is equal to itself only, whatever the clock does: a later one with its number is a different one.
Process = psutil.Process
PROXY = "docker-proxy"


@dataclass(frozen=True)
class CpuByProcess:
    """CPU seconds since their start, and names, of all processes except this one and those of the given containers."""

    used: dict[Process, float]
    names: dict[Process, str]

    @classmethod
    def read(cls, containers: Iterable[str] = (), but: Collection[Process] = ()) -> "CpuByProcess":
        ids, used, names = tuple(containers), {}, {}
        for process in psutil.process_iter(["name", "cpu_times"]):
            times, pid = process.info["cpu_times"], process.pid
            if pid == os.getpid() or times is None or process in but or _is_in(pid, ids):
                continue
            used[process], names[process] = times.user + times.system, process.info["name"]
        return cls(used, names)

    def busiest_since(self, before: "CpuByProcess", most: int = 3) -> list[tuple[str, float]]:
        """Return (name, CPU seconds) of the processes that used the most CPU since `before`, added up by name."""
        by_name: dict[str, float] = {}
        for key, seconds in self.used.items():
            spent = seconds - before.used.get(key, 0.0)
            by_name[self.names[key]] = by_name.get(self.names[key], 0.0) + spent
        return sorted(by_name.items(), key=lambda item: -item[1])[:most]


def of_published_ports(subnets: Iterable[str]) -> dict[Process, float]:
    """Return the CPU seconds of each `docker-proxy` that publishes a port of a container in these networks.

    Docker starts one for each port; it carries every connection from this machine to the container.
    """
    networks, found = [ip_network(each) for each in subnets], {}
    for process in psutil.process_iter(["name"]):
        if networks and process.info["name"] == PROXY:
            # It may end meanwhile.
            with suppress(psutil.Error, ValueError):
                words = process.cmdline()
                address = ip_address(words[words.index("-container-ip") + 1])
                times = process.cpu_times()
                if any(address in each for each in networks):
                    found[process] = times.user + times.system
    return found


def _is_in(pid: int, containers: tuple[str, ...]) -> bool:
    with suppress(OSError):
        groups = Path(f"/proc/{pid}/cgroup").read_text()
        return any(one in groups for one in containers)
    return False
