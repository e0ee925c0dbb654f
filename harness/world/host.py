"""The machine under the lab: what it is, and how much of it somebody else is using."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil


def describe() -> dict[str, str | int | float]:
    """Kernel, CPUs, memory (MiB) and Python of this machine."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": _system(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count() or 1,
        "memory_mib": psutil.virtual_memory().total >> 20,
        "python": platform.python_version(),
    }


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.platform()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds since boot of the whole machine, and of this process with the children it has waited for."""

    busy: float
    stolen: float
    total: float
    own: float

    @classmethod
    def read(cls) -> "CpuTime":
        times = psutil.cpu_times()
        stolen = getattr(times, "steal", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        total = sum(times[: 8 if hasattr(times, "steal") else None])
        own = os.times()
        return cls(
            total - idle - stolen, stolen, total, own.user + own.system + own.children_user + own.children_system
        )


def cpu_pressure() -> float | None:
    """Share of the last 10 s in which some task waited for a CPU (PSI), or None where the kernel does not tell."""
    try:
        first = Path("/proc/pressure/cpu").read_text().split()
    except OSError:
        return None
    return float(first[1].removeprefix("avg10=")) / 100


def load1() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]
