"""How long a lab takes whose nodes are on two engines, against the same lab on one: `lab up`, images and all present.

The other engine is in a network namespace of this machine, so both share its CPUs and its disk.
"""

import sys
from collections.abc import Iterator

from replication_lab.cli.console import tell
from replication_lab.world import catalogue
from replication_lab.world.docker import images

from tests.bench.command import seconds_of
from tests.bench.figure import BenchFigure, figure
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere

LAB = [sys.executable, "-m", "replication_lab"]
ROUNDS = 3


def figures(name: str) -> Iterator[BenchFigure]:
    """Yield the seconds of `lab up semisync` over two sites, and its ratio to one site, in turn."""
    if MISSING:
        tell(f"two sites: an engine in a network namespace needs {MISSING}")
        return
    images.ensure(["mariadb", "toxiproxy", "clients"])
    ups, ratios = [], []
    with engine_elsewhere(*(f"replication-lab/{each}" for each in ("mariadb", "toxiproxy", "clients"))) as elsewhere:
        addresses = {"replica": elsewhere.machine, "source": elsewhere.neighbour}
        at = [word for node, address in addresses.items() for word in ("--site-address", f"{node}={address}")]
        for _ in range(ROUNDS):
            one, two = (_up(name, *options) for options in ((), ("--site", f"replica={elsewhere.host}", *at)))
            ups.append(two)
            ratios.append(two / one)
    yield figure("lab up semisync over two sites (with its proofs)", "s", ups, None)
    yield figure("lab up semisync over two sites / on one", "", ratios, 2)


def _up(name: str, *options: str) -> float:
    try:
        return seconds_of([*LAB, "up", "semisync", "--lab", name, *options], catalogue.ROOT)
    finally:
        seconds_of([*LAB, "down", "--yes", "--lab", name], catalogue.ROOT)
