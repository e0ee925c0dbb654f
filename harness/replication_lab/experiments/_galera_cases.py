"""The systems and cases that galera_vs_semisync compares."""

from dataclasses import dataclass
from typing import Any

from replication_lab.experiments._far import Far
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.lab_spec import LabSpec
from replication_lab.model.experiment.published import Words
from replication_lab.model.question.case_state import CaseState
from replication_lab.world import catalogue

CLIENTS = (1, 8, 16, 32, 64, 128, 256)
LAN = "lan"
# Of one row, and of the loads on all nodes.
HOT_CLIENTS = 6
# The provider's send windows, in messages, as its manual advises for a WAN.
WAN_WINDOWS = (512, 256)
WINDOWED = (128, 256)
# How many nodes write the one row, in words; the loads on all nodes, by their names in cases.
WRITERS = {1: ("one", "node"), 2: ("two", "nodes"), 3: ("three", "nodes")}
LOADS = {"counters": "counter updates", "bank": "bank transfers"}


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


def distances(wan: Far) -> dict[str, str]:
    """Return the two distances by their names in cases, each in words."""
    return {LAN: "on a LAN", wan.name: f"at {wan.said}"}


def _case(
    wan: Far, name: str, system: str, distance: str, what: str, clients: int = HOT_CLIENTS, **settings: Any
) -> Case:
    chosen = SYSTEMS[system]
    links = catalogue.topology(chosen.topology).links
    toxics = {} if distance == LAN else {link.name: wan.toxic for link in links}
    needs = {"galera"} if chosen.is_galera else {"semisync", "wait_point"}
    return Case(
        name,
        f"{chosen.about}, {distances(wan)[distance]}, {what}",
        {"system": system, **settings},
        frozenset(needs),
        LabSpec(chosen.topology),
        toxics=toxics,
        state=CaseState("" if chosen.is_galera else "semisync", clients, chosen.wait_point or None),
    )


def _inserts(wan: Far, system: str, distance: str, clients: int) -> Case:
    return _case(wan, f"{system}-{distance}-{clients}", system, distance, said_clients(clients), clients=clients)


def words(wan: Far) -> Words:
    """Return what the claims name: the systems that Galera is compared with, the distances, the numbers of clients."""
    others = [
        {
            **{"other": name, "about": system.about},
            **{"galera": galera, "galera_about": SYSTEMS[galera].about},
        }
        for name, system in SYSTEMS.items()
        if system.wait_point
        for galera in ["galera2" if name in TWO else "galera"]
    ]
    return {
        **wan.words,
        "others": others,
        "distances": [{"at": at, "where": where} for at, where in distances(wan).items()],
        "clients": [{"n": n, "clients": said_clients(n)} for n in CLIENTS],
    }


def cases(wan: Far) -> tuple[Case, ...]:
    far, both = wan.name, distances(wan)
    return (
        *(_inserts(wan, system, distance, n) for system in SYSTEMS for distance in both for n in CLIENTS),
        *(
            _case(
                wan,
                f"galera-windows-{far}-{n}",
                "galera",
                far,
                f"{n} clients, wider send windows",
                clients=n,
                windows=WAN_WINDOWS,
            )
            for n in WINDOWED
        ),
        *(
            _case(
                wan,
                f"galera-{distance}-64-on-{n}",
                "galera",
                distance,
                f"64 clients on {n} nodes",
                clients=64,
                writers=n,
            )
            for distance in both
            for n in (2, 3)
        ),
        *(
            _case(wan, f"hot-galera-{n}", "galera", far, f"one row, {said} writer {nodes}", load="hot", writers=n)
            for n, (said, nodes) in WRITERS.items()
        ),
        *(_case(wan, f"hot-{system}", system, far, "one row", load="hot") for system in ("after-sync", "after-commit")),
        *(
            _case(wan, f"{load}-{distance}", "galera", distance, f"{what} on all nodes", load=load)
            for load, what in LOADS.items()
            for distance in both
        ),
        _case(wan, "slow-galera", "galera", "lan", "64 clients, one node slow", clients=64, slow="node3"),
        _case(
            wan, "slow-after-commit", "after-commit", "lan", "64 clients, one replica slow", clients=64, slow="replica2"
        ),
    )
