"""Is a Galera cluster a faster replacement for semi-synchronous replication?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from replication_lab import Case, Inserts, Lab, Preset, Proof, Server, experiment, replication
from replication_lab.experiments._far import Far
from replication_lab.faults.cpu_and_memory import CpuSqueeze
from replication_lab.faults.fault import injected
from replication_lab.model.experiment.curves import Curves
from replication_lab.model.experiment.measuring import AlsoProves, Watch, Workload
from replication_lab.model.experiment.published import Words
from replication_lab.probes import galera as galera_probe
from replication_lab.probes.round_trip import bare_links
from replication_lab.workloads.counters import Bank, Counters, HotRow
from replication_lab.world.mysql.galera import GaleraNode

CLIENTS = (1, 8, 16, 32, 64, 128, 256)
LAN = "lan"
# Of one row, and of the loads on all nodes.
HOT_CLIENTS = 6


def _system(about: str, topology: str, wait_point: str | None = None) -> Words:
    """Return a replication system to compare; Galera has no wait point."""
    return {
        "about": about,
        "topology": topology,
        "needs": ["semisync", "wait_point"] if wait_point else ["galera"],
        "replication": "semisync" if wait_point else "",
        "wait_point": wait_point,
    }


THREE = {
    "galera": _system("Galera (3 nodes)", "galera"),
    "after-sync": _system("semi-sync (AFTER_SYNC, 3 copies)", "semisync-3", "AFTER_SYNC"),
    "after-commit": _system("semi-sync (AFTER_COMMIT, 3 copies)", "semisync-3", "AFTER_COMMIT"),
}
TWO = {
    "galera2": _system("Galera (2 nodes)", "galera-2"),
    "after-sync2": _system("semi-sync (AFTER_SYNC, 2 copies)", "semisync", "AFTER_SYNC"),
    "after-commit2": _system("semi-sync (AFTER_COMMIT, 2 copies)", "semisync", "AFTER_COMMIT"),
}
SYSTEMS = THREE | TWO


def words(wan: Far) -> Words:
    """Return what cases and claims name: systems, those that Galera is compared with, distances, numbers of clients.

    `of_three` are the cases of systems with three copies.
    """
    others = [
        {"other": name, "about": system["about"], "galera": galera, "galera_about": SYSTEMS[galera]["about"]}
        for systems, galera in ((THREE, "galera"), (TWO, "galera2"))
        for name, system in systems.items()
        if name != galera
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
        "systems": [{"system": name, **system} for name, system in SYSTEMS.items()],
        "distances": [
            {"at": LAN, "where": "on a LAN", "links": ""},
            {"at": wan.name, "where": f"at {wan.said}", "links": wan.toxic.name},
        ],
        "clients": [{"n": n, "clients": "1 client" if n == 1 else f"{n} clients"} for n in CLIENTS],
    }


# As published; a semi-synchronous source of that time did not sync its binary log either. Set on every copy.
RELAXED = {"innodb_flush_log_at_trx_commit": 0}
RELAXED_LOG = {"sync_binlog": 0}
# How many messages may be in flight: the group's, and a node's own, which may never be wider.
SEND_WINDOWS = ("evs.send_window", "evs.user_send_window")
# The provider's defaults.
WINDOWS = (4, 2)
GALERA = {THREE["galera"]["topology"], TWO["galera2"]["topology"]}
# As a share of one CPU.
SLOW_SHARE = 0.1
NODES = ("node1", "node2", "node3")


def workload(case: Case, preset: Preset) -> Workload[Lab]:
    """Return the load of a case, with as many rows or seconds as the preset says."""
    writers = NODES[: case.settings.get("writers", 0)]
    # Across a WAN one client takes hours for the published rows; its rate is known after a minute.
    seconds = preset.sizes["most_seconds" if case.toxics else "seconds"]
    match case.settings.get("load", "inserts"):
        case "hot":
            return HotRow(HOT_CLIENTS, preset.sizes["hot_seconds"], nodes=writers)
        case "counters":
            return Counters(seconds=preset.sizes["far_seconds"])
        case "bank":
            return Bank(seconds=preset.sizes["far_seconds"])
    return Inserts(case.state.clients, preset.sizes["rows"], seconds, nodes=writers)


# --- arranging --------------------------------------------------------------------------------------------------------


def prepare(lab: Lab) -> None:
    """Pin CPUs as for two sites, set the published test's variables on every copy, create tables, install the script.

    The node that is written to shares its CPUs with the clients; all other nodes and the proxy share the rest: the same
    for both systems, and for two copies as for three.
    """
    first = lab.topology.source.name
    lab.pin_cpus((first, "load"), (*(node.name for node in lab.topology.replicas), "toxiproxy"))
    for node in lab.topology.nodes:
        lab.node(node.name).server().set_global(**RELAXED, **({} if _is_galera(lab) else RELAXED_LOG))
    for load in (Inserts(), HotRow(), Counters(), Bank()):
        load.prepare(lab)


def _is_galera(lab: Lab) -> bool:
    return lab.topology.name in GALERA


@contextmanager
def arrange(lab: Lab, case: Case) -> Iterator[Watch]:
    """Set up a case's state and wait for it before the load; yield the watch that proves it afterwards."""
    with _galera(lab, case) if _is_galera(lab) else replication.of(lab).arranged(case) as replicating:
        with _slowed(lab, case.settings.get("slow", ""), replicating) as watch:
            yield watch if case.toxics else AlsoProves(watch, lambda: [bare_links(lab)])


@contextmanager
def _galera(lab: Lab, case: Case) -> Iterator[Watch]:
    servers = [lab.node(node.name).server() for node in lab.topology.nodes]
    galera_probe.wait_until_synced(servers, len(servers))
    windows = case.settings.get("windows", WINDOWS)
    try:
        _set_windows(servers, windows)
        watch = galera_probe.GaleraWatch(servers, _round_trip_ms(case), throttled="slow" in case.settings)
        yield AlsoProves(watch, lambda: [_windows_in_force(server, windows) for server in servers])
    finally:
        _set_windows(servers, WINDOWS)


def _set_windows(servers: list[Server], windows: tuple[int, int]) -> None:
    """Set the send windows: (the group's, a node's own)."""
    group, own = windows
    for server in servers:
        server.set_global(wsrep_provider_evs_user_send_window=min(own, WINDOWS[1]))
        server.set_global(wsrep_provider_evs_send_window=group, wsrep_provider_evs_user_send_window=own)


def _windows_in_force(server: Server, windows: tuple[int, int]) -> Proof:
    options = GaleraNode(server).provider_options()
    found = " and ".join(options.get(name, "unknown") for name in SEND_WINDOWS)
    return Proof.same(
        f"{server.name} has its send windows ({', '.join(SEND_WINDOWS)})", found, " and ".join(map(str, windows))
    )


def _round_trip_ms(case: Case) -> float:
    # All links of a case have the same toxic.
    return next((toxic.round_trip_ms for toxic in case.toxics.values()), 0)


@contextmanager
def _slowed(lab: Lab, node: str, watch: Watch) -> Iterator[Watch]:
    """Limit the node, if one is named, to a tenth of a CPU within the block; yield a watch that proves that as well."""
    if not node:
        yield watch
        return
    with injected(CpuSqueeze(lab, [node], SLOW_SHARE)) as squeeze:
        # Before the watch queries the node: the cost of its answers must not be what reached the limit.
        yield AlsoProves(watch, squeeze.end, first=True)


# --- laws ---------------------------------------------------------------------------------------------------------


def predict(case: Case, figures: dict[str, float]) -> dict[str, float]:
    """Return the laws' figures: a commit waits one round trip; n clients commit n/RTT a second; a row changes 1/RTT."""
    trip = figures.get("rtt_p50_ms")
    if not trip or case.settings.get("load") in ("counters", "bank"):
        return {}
    if case.settings.get("load") == "hot":
        return {"throughput": 1000 / trip}
    return {"latency_p50_ms": trip, "throughput": case.state.clients * 1000 / trip}


# --- curves -----------------------------------------------------------------------------------------------------------


def _curves(wan: Far, title: str, name: str) -> Curves:
    panels: dict[str, dict[str, dict[float, str]]] = {
        f"{said}, {copies} copies": {
            system["about"].split(",")[0]: {n: f"{key}-{distance}-{n}" for n in CLIENTS}
            for key, system in systems.items()
        }
        for copies, systems in (("three", THREE), ("two", TWO))
        for distance, said in ((LAN, "LAN"), (wan.name, wan.said))
    }
    return Curves.over(title, "clients", panels, name)


def _at(wan: Far) -> dict[str, Any]:
    return {
        "words": words(wan),
        "curves": (
            _curves(wan, "Throughput by number of clients", "throughput"),
            _curves(wan, "Median commit latency by number of clients", "latency_p50_ms"),
        ),
    }


experiment(
    topology="galera",
    engines=("mariadb",),
    watched=True,
    load=workload,
    prepare=prepare,
    arrange=arrange,
    predict=predict,
    at=_at,
)
