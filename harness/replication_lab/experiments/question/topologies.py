"""Refuse a question that one of its topologies cannot answer, before anything starts.

What no topology could answer is refused in model/question/validation.py.
"""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.question import Question
from replication_lab.model.question.setting import (
    BARE,
    CHOICES,
    PROTOCOL,
    RTT,
    TOPOLOGY,
    AskedSetting,
    Values,
    is_bare,
    named,
    setting,
)
from replication_lab.world import catalogue


def refuse_what_a_topology_cannot(question: Question, topology: Topology, with_lag: bool) -> None:
    """Raise LabError if a topology cannot be arranged, or lacks a setting of the question, or the lag of a claim."""
    refuse_slow_replicas(topology)
    asked = [setting(name) for name in [*question.vary, *question.settings]]
    for each in asked:
        refuse_missing_setting(each, topology)
    for values in question.combinations():
        if values.get(TOPOLOGY, topology.name) == topology.name:
            refuse_what_a_case_cannot({**question.settings, **values}, named(values), topology)
    _refuse_overridden(asked, topology)
    if with_lag and not replication.kind_of(topology).follows_a_source:
        raise LabError(
            f"{topology.name} has {topology.replication} replication, in which no replica has a lag",
            "a topology of a source and replicas",
            "./lab ask async … --claim 'lag[…] <= 1'",
        )
    if with_lag and "none" in [*question.vary.get("replication", []), question.settings.get("replication")]:
        raise LabError(
            "a claim is about the lag, and with replication=none there is no replica",
            "replication async or semisync",
            "leave out the claim, or replication=none",
        )


def refuse_missing_setting(asked: AskedSetting, topology: Topology) -> None:
    """Raise LabError for a setting that the topology does not have, or has on no server."""
    if asked.name in CHOICES:
        _refuse_missing_choice(asked.name, topology)
    elif not asked.is_of_case:
        refuse_a_file_for_machines(asked, topology)
        served = nodes_with_servers(topology)
        if asked.node in ("", *served):
            return
        if asked.node in [each.name for each in topology.nodes]:
            raise LabError(
                f"{asked.name}: no server runs on {asked.node} of {topology.name}; it holds the second copy of the "
                "disk",
                f"the server on {served[0]}",
                f"./lab ask {topology.name} --vary {served[0]}.{asked.what}=…",
            )
        raise LabError(
            f"{topology.name} has no node {asked.node!r}", f"one of {', '.join(served)}", "./lab list topologies"
        )


def replication_of(values: Values, topology: Topology) -> str:
    return values.get("replication", topology.replication)


def nodes_with_servers(topology: Topology) -> list[str]:
    """Return the nodes on which variables are set: on a replicated disk only the one that serves."""
    nodes = [topology.source] if replication.kind_of(topology).in_machines else topology.nodes
    return [node.name for node in nodes]


def can_answer(topology: Topology) -> bool:
    """Return whether the state of a case is possible: replicas on slow disks would not catch up between loads."""
    return not topology.storage


def refuse_slow_replicas(topology: Topology) -> None:
    """Raise LabError for a topology whose replicas do not keep up with a load."""
    if can_answer(topology):
        return
    able = [name for name in catalogue.topologies() if can_answer(catalogue.topology(name))]
    raise LabError(
        f"the replicas of {topology.name} are on slow disks and do not keep up; `lab ask` measures the commits of the "
        "source, which wait for no replica",
        f"one of {', '.join(able)}; or the experiment that measures how fast replicas on slow disks apply",
        "./lab run raid_replica",
    )


def _refuse_missing_choice(name: str, topology: Topology) -> None:
    kind = replication.kind_of(topology)
    if name == PROTOCOL:
        if not kind.protocols:
            raise LabError(
                f"{topology.name} has no replicated disk, so it has no setting {name}",
                "a topology whose disk DRBD replicates",
                f"./lab ask drbd --vary {name}=A,B,C",
            )
    elif not kind.follows_a_source or any(link.source != topology.source.name for link in topology.links):
        why = kind.why_fixed or "one of its replicas replicates from another replica, always asynchronously"
        raise LabError(
            f"{topology.name} has no setting {name}: {why}",
            "a topology of a source and replicas that all replicate from it",
            f"./lab ask semisync --vary {name}=…",
        )


def refuse_a_file_for_machines(asked: AskedSetting, topology: Topology) -> None:
    if asked.is_file and replication.kind_of(topology).in_machines:
        raise LabError(
            f"{asked.name}: the servers of {topology.name} run in virtual machines, "
            "which are not restarted with a file",
            "a variable that the server changes while it runs",
            f"./lab ask {topology.name} --vary innodb_flush_log_at_trx_commit=1,2",
        )


def _refuse_overridden(asked: Sequence[AskedSetting], topology: Topology) -> None:
    """Raise LabError for a setting of all servers, or of all replicas' disks, if each node has a value of its own."""
    names = {each.name for each in asked}
    for each in asked:
        if each.is_of_case or each.node:
            continue
        replicas = [node.name for node in topology.replicas]
        nodes = replicas if each.is_of_disks else nodes_with_servers(topology)
        own = [f"{node}.{each.what}" for node in nodes]
        if own and set(own) <= names:
            raise LabError(
                f"{each.name} would change nothing: {', '.join(own)} {'are' if len(own) > 1 else 'is'} given as well",
                f"{each.name} for all nodes, or values for single nodes",
                f"leave out {each.name}",
            )


def refuse_what_a_case_cannot(values: Values, case: str, topology: Topology) -> None:
    """Raise LabError for settings that exclude each other on the topology."""
    if not topology.links and not is_bare(values.get(RTT, "0")):
        raise LabError(
            f"{topology.name} has no link, so rtt={values[RTT]} would change nothing",
            "a topology with links; a source without replicas is replication=none",
            f"./lab ask async --rtt {values[RTT]} --vary replication=none,async",
        )
    protocol, known = values.get(PROTOCOL), replication.kind_of(topology).protocols
    if protocol and protocol not in known:
        raise LabError(
            f"DRBD has no protocol {protocol} in {topology.name}: a primary that loses its peer fences it before it "
            "continues",
            f"protocol {' or '.join(known)} there, or a pair without a cluster manager",
            f"./lab ask drbd --vary {PROTOCOL}=A,B,C",
        )
    wanted = replication_of(values, topology)
    if wanted == "semisync" and not replication.kind_of(topology).acknowledges:
        raise LabError(
            f"the servers of {topology.name} are not set up for semi-sync",
            "a topology whose servers are set up for semi-sync",
            "./lab ask semisync …",
        )
    if "wait_point" in values and wanted != "semisync":
        raise LabError(
            f"case {case} has a wait point, but its replication is {wanted}",
            "replication=semisync, where a commit waits",
            "leave out wait_point, or give --set replication=semisync",
        )


def round_trip_of(values: Values) -> Toxic | None:
    """Return the toxic of a case's round trip; None for a bare link. Raise LabError for one that is none, or more."""
    if is_bare(name := values.get(RTT, BARE[0])):
        return None
    toxic = catalogue.toxic(name)
    if not toxic.round_trip_ms:
        raise LabError(f"rtt is {name!r}, which sets no round trip", "a toxic with a latency", "./lab toxic")
    if not toxic.is_latency:
        raise LabError(
            f"rtt is {name!r}, which is more than a latency; round trips during the load cannot verify the rest",
            "a latency, with or without jitter or loss, such as 40ms, 40ms±5ms or 40ms+loss=2%",
            f"./lab up semisync --toxic source-replica={name}",
        )
    return toxic
