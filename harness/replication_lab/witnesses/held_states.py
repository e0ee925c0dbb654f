"""Did servers stay in the state in which a fault holds them: threads of a replica, its delay, a lock of a backup?"""

import threading
from collections.abc import Callable
from functools import partial

from replication_lab.witnesses.sampled import Sampled
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

HELD = "each server stayed in the state in which a fault held it"

# Returns in words how a server is not as the fault left it; an empty string if it is.
Contrary = Callable[[Server], str]
# By the lab, the node and the fault: two faults may hold one server.
_held: dict[tuple[str, str, int], Contrary] = {}
_lock = threading.Lock()


def hold(lab: Lab, node: str, fault: object, contrary: Contrary) -> None:
    """Expect from now on that a server is as a fault has left it."""
    with _lock:
        _held[lab.name, node, id(fault)] = contrary


def release(lab: Lab, node: str, fault: object) -> None:
    """Expect it no longer: the fault is being undone."""
    with _lock:
        _held.pop((lab.name, node, id(fault)), None)


def held_states(lab: Lab) -> Sampled[Server]:
    """Return the witness of all servers of a lab; one that no fault holds is not connected to."""
    return Sampled(HELD, lab, {node.name: partial(_contrary, lab.name, node.name) for node in lab.topology.nodes})


def _contrary(lab: str, node: str, server: Server) -> list[str]:
    asked = _of(lab, node)
    found = {fault: said for fault, contrary in asked.items() if (said := contrary(server))}
    # A fault that was undone during the reading may be seen or not.
    return [said for fault, said in found.items() if fault in _of(lab, node)]


def _of(lab: str, node: str) -> dict[int, Contrary]:
    with _lock:
        return {fault: contrary for (of, name, fault), contrary in _held.items() if (of, name) == (lab, node)}
