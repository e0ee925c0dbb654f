"""The systems that galera_vs_semisync compares, as the cases and claims of its YAML file name them."""

from dataclasses import dataclass

from replication_lab.experiments._far import Far
from replication_lab.model.experiment.published import Words

CLIENTS = (1, 8, 16, 32, 64, 128, 256)
LAN = "lan"
# Of one row, and of the loads on all nodes.
HOT_CLIENTS = 6


@dataclass(frozen=True)
class System:
    """A replication system to compare."""

    about: str
    topology: str
    wait_point: str = ""

    @property
    def is_galera(self) -> bool:
        return not self.wait_point


THREE = {
    "galera": System("Galera (3 nodes)", "galera"),
    "after-sync": System("semi-sync (AFTER_SYNC, 3 copies)", "semisync-3", "AFTER_SYNC"),
    "after-commit": System("semi-sync (AFTER_COMMIT, 3 copies)", "semisync-3", "AFTER_COMMIT"),
}
TWO = {
    "galera2": System("Galera (2 nodes)", "galera-2"),
    "after-sync2": System("semi-sync (AFTER_SYNC, 2 copies)", "semisync", "AFTER_SYNC"),
    "after-commit2": System("semi-sync (AFTER_COMMIT, 2 copies)", "semisync", "AFTER_COMMIT"),
}
SYSTEMS = THREE | TWO


def said_clients(clients: int) -> str:
    return "1 client" if clients == 1 else f"{clients} clients"


def _row(name: str, system: System) -> Words:
    needs, replication = ["semisync", "wait_point"], "semisync"
    if system.is_galera:
        needs, replication = ["galera"], ""
    row = {"system": name, "about": system.about, "topology": system.topology}
    return {**row, "needs": needs, "replication": replication, "wait_point": system.wait_point or None}


def words(wan: Far) -> Words:
    """Return what cases and claims name: systems, those that Galera is compared with, distances, numbers of clients.

    `of_three` are the cases of systems with three copies.
    """
    systems = [_row(name, system) for name, system in SYSTEMS.items()]
    others = [
        {
            **{"other": name, "about": system.about},
            **{"galera": galera, "galera_about": SYSTEMS[galera].about},
        }
        for name, system in SYSTEMS.items()
        if system.wait_point
        for galera in ["galera2" if name in TWO else "galera"]
    ]
    of_three = (
        *(f"{system}-{at}-{n}" for at in (LAN, wan.name) for system in THREE for n in CLIENTS),
        *(f"galera-windows-{wan.name}-{n}" for n in (128, 256)),
        *(f"galera-{at}-64-on-{n}" for at in (LAN, wan.name) for n in (2, 3)),
        *("hot-galera-1", "hot-galera-2", "hot-galera-3", "hot-after-sync", "hot-after-commit"),
        *(f"{load}-{at}" for load in ("counters", "bank") for at in (LAN, wan.name)),
        *("slow-galera", "slow-after-commit"),
    )
    return {
        **wan.words,
        "of_three": list(of_three),
        "others": others,
        "systems": systems,
        "distances": [
            {"at": LAN, "where": "on a LAN", "links": ""},
            {"at": wan.name, "where": f"at {wan.said}", "links": wan.toxic.name},
        ],
        "clients": [{"n": n, "clients": said_clients(n)} for n in CLIENTS],
    }
