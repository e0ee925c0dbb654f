"""The speed of this machine's CPUs, beside that of the machine of docs/project.md: a slow suite explains itself."""

from statistics import median

from replication_lab.probes.cpu_speed import loop_us

from tests import kept

READINGS = 200


def typical_loop_us() -> float:
    """Return the median CPU time of the loop in microseconds, on an otherwise idle process; it takes 0.1 s."""
    return round(median(loop_us() for _ in range(READINGS)), 1)


def compared(mine: float) -> str:
    """Return in words how long the loop took here, and there if that is known."""
    said = f"speed of the CPUs: a loop took {mine:.0f} us"
    there = kept.bench_loop_us()
    return f"{said}, {mine / there:.2f} times as long as on the machine of docs/project.md" if there else said
