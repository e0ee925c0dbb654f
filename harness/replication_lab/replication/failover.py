"""Failover: a replica promoted, the others repointed, the old source taken back as a replica."""

from collections.abc import Collection
from contextlib import suppress

from replication_lab import replication
from replication_lab.model.core.errors import LabError, WouldLose, unknown_name
from replication_lab.model.lab.succession import TakenBack, TakenOver
from replication_lab.replication import received
from replication_lab.replication.fence import ROLE, Fence
from replication_lab.replication.role_changes import FAILOVER, REJOIN
from replication_lab.world import at_once, catalogue, clock, lab_files, requests_made, signals
from replication_lab.world.docker.attached import refuse_attached
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.clone import clone
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.mysql.server import Server

# How long to wait for the new source: in all, and while it receives and applies nothing; then for a node's answer.
CATCH_UP_SECONDS, STILL_SECONDS, ANSWER_SECONDS = 60, 5, 60
SERVER_PORT = 3306
# The role of a node that has neither a source nor a replica.
ALONE = "alone"


# --- who follows whom -------------------------------------------------------------------------------------------------


def sources(lab: Lab, among: Collection[str] | None = None) -> dict[str, str]:
    """Return each replica that answers, or each of `among`, with the node that it replicates from."""
    return {node: source for node, source in following(lab, among).items() if source}


def following(lab: Lab, among: Collection[str] | None = None) -> dict[str, str]:
    """Return each node, or each of `among`, that answers, with the node that it replicates from or an empty string."""
    proxies = lab.proxied().values()
    behind = {int(one["listen"].rpartition(":")[2]): one["upstream"].rpartition(":")[0] for one in proxies}
    found = {}
    for node in (node.name for node in lab.topology.nodes if among is None or node.name in among):
        with suppress(LabError):
            state = Replica(lab.node(node).server()).status()
            found[node] = behind.get(state.port, state.host) if state else ""
    return found


def awake(lab: Lab) -> list[str]:
    """Return the nodes whose servers answer soon; each query to a frozen server would wait until its timeout."""
    names = [node.name for node in lab.topology.nodes]
    answers = at_once.of_each(lambda name: lab.node(name).answers_soon(), names)
    return [name for name, soon in zip(names, answers, strict=True) if soon]


def roles(lab: Lab, found: dict[str, str]) -> dict[str, str]:
    """Return each node's role by what replicates from what: source, relay, replica, or alone.

    A node is alone if it has neither a source nor a replica. One that does not answer has its role in the topology.
    """
    return {node.name: _role(node.name, found) if node.name in found else node.role for node in lab.topology.nodes}


def _role(node: str, found: dict[str, str]) -> str:
    is_followed = node in found.values()
    if found[node]:
        return "relay" if is_followed else "replica"
    return "source" if is_followed else ALONE


def links(lab: Lab, found: dict[str, str]) -> list[tuple[str, str, str]]:
    """Return the links in use, as (name, source, target): the topology's, and those of a failover.

    A link whose target does not answer is the topology's.
    """
    kept = [link for link in lab.topology.links if found.get(link.target, link.source) == link.source]
    known = {(link.source, link.target) for link in kept}
    new = [(source, node) for node, source in found.items() if source and (source, node) not in known]
    return [*((link.name, link.source, link.target) for link in kept), *((link_name(*ends), *ends) for ends in new)]


def link_name(source: str, target: str) -> str:
    """Return the name of a link that a failover made."""
    return f"{source}-{target}"


def takes_writes(lab: Lab, node: str) -> bool:
    """Return whether a node accepts writes: False for a fenced old source and for a replica without a source."""
    try:
        return lab.node(node).server().settings("read_only") == {"read_only": "OFF"}
    except LabError:
        return False


# --- promoted ---------------------------------------------------------------------------------------------------------


def failover(lab: Lab, node: str, allow_data_loss: bool = False) -> TakenOver:
    """Make a replica the source, and the old source's other replicas its own.

    Raise LabError if the replica lacks what another node is known to have, or has not applied what it received, unless
    `allow_data_loss` is set. Before the fence, nodes are only read; if the check fails after it, the fence is undone.
    """
    refuse_unable(lab, FAILOVER)
    lab.topology.node(node)
    following = sources(lab, awake(lab))
    old, others = source_and_others(node, following)
    new, fence = lab.node(node).server(), Fence(lab, old)
    if not allow_data_loss and (missing := _missing_of_each(lab, new, [old, *others])):
        raise _is_behind(lab, new, old, missing)
    try:
        if why := fence.close():
            if not allow_data_loss:
                _refuse_waiting(lab, new, old)
            fence.restart(why)
        missing = _missing_of_each(lab, new, [old, *others])
        if missing and not allow_data_loss:
            raise _is_behind(lab, new, old, missing, fence.said)
        lacks = _lacks(lab, new, missing)
        Replica(new).end_replication(lose=bool(missing))
    except BaseException:
        # Undo the fence also after an interruption.
        fence.undo()
        raise
    with signals.signals_held():
        # The node stays a replica to the last, so the same command can be repeated after an error in between.
        set_role(lab, new, source=True)
        new.set_global(read_only=0)
        Replica(new).forget()
        received.forget(lab, node)
    lost = gtid.count(gtid.union(*missing.values()))
    done = TakenOver(old, node, [], lacks, lost=lost, fenced=fence.said, replaced=[_first_source(old, following)])
    for name in others:
        repoint(lab, name, done)
    if done.repointed:
        wait_for_replicas(lab, new)
    return done


def source_and_others(node: str, following: dict[str, str]) -> tuple[str, list[str]]:
    """Return the source of a replica, and the source's other replicas; LabError if the node is no replica."""
    if node not in following:
        raise LabError(f"{node} is not a replica", f"one of {', '.join(following) or 'no replicas'}", "./lab status")
    old = following[node]
    return old, [name for name, source in following.items() if source == old and name != node]


def _first_source(node: str, following: dict[str, str]) -> str:
    """Return the node from which all rows of this one came, over its relays if it has any."""
    # A ring of servers has no first one.
    for _ in following:
        node = following.get(node, node)
    return node


def repoint(lab: Lab, name: str, done: TakenOver) -> None:
    """Repoint another replica to the new source, or to none if it has errant transactions; note in `done` which.

    If it has not applied what it received, leave it unchanged: the transactions would be lost.
    """
    try:
        new, other = lab.node(done.source).server(), lab.node(name).server()
        if left := received.settled(lab, name):
            done.left[name] = str(left)
            return
        Replica(other).stop_following()
        # Only here is it certain that it has applied all that it had received.
        if errant := beyond(BinaryLog(other).gtids(), new):
            done.ahead[name] = gtid.words(errant)
            done.replaced.append(name)
        else:
            Replica(other).follow(*dialled(lab, new.name, name))
            done.repointed.append(name)
    except LabError as error:
        # One failing replica must not keep the others from a source.
        done.left[name] = error.found


HOW_TO_INSIST = "./lab failover {} --allow-data-loss, which loses them"


def refuse_unable(lab: Lab, command: str) -> None:
    """Raise LabError for a lab whose replicas cannot follow another source."""
    refuse_attached(lab, command)
    if not replication.kind_of(lab.topology).follows_a_source:
        raise LabError(f"{lab.name} has no source and replicas", "a topology with both", "./lab up async")
    if not all(lab.node(node.name).dialect.gtids for node in lab.topology.nodes):
        raise LabError(
            f"{lab.engine} has no GTIDs: a replica's position in another server's binary log is unknown",
            "an engine with the feature gtid",
            "./lab list engines",
        )


Missing = dict[str, dict[str, gtid.Ranges]]


def _is_behind(lab: Lab, new: Server, old: str, missing: Missing, fenced: str = "") -> LabError:
    left = received.backlog(lab, new.name)
    remedy = left.remedy(new.name) if left else ""
    if left and not remedy and not left.moves:
        remedy = f"./lab start {old}, which sends them again"
    insist = HOW_TO_INSIST.format(new.name)
    changed = f"; {fenced}, and accepts writes again" if "killed" in fenced else ""
    return WouldLose(
        f"{new.name} is behind: {_lacks(lab, new, missing)}{changed}",
        "a replica that has applied every transaction",
        f"{remedy}; or {insist}" if remedy else insist,
    )


def _lacks(lab: Lab, new: Server, missing: Missing) -> str:
    """Return in words what the new source has not committed: what it has received, then what only others have."""
    own = missing.get(new.name, {})
    left = received.backlog(lab, new.name) if own else None
    others = {name: found for name, found in missing.items() if gtid.union(own, found) != gtid.union(own)}
    said = [f"{name} has {gtid.words(found)}" for name, found in others.items()]
    return "; ".join([*([str(left)] if left else []), *said])


def _missing_of_each(lab: Lab, new: Server, others: list[str]) -> Missing:
    """Return what each node has committed or received, and the new source has not committed after a wait."""
    names = [new.name, *(name for name in others if lab.node(name).answers_soon())]
    held = {name: f"{BinaryLog(lab.node(name).server()).gtids()},{received.gtids(lab, name)}" for name in names}

    def missing() -> Missing:
        return {name: found for name, text in held.items() if (found := beyond(text, new))}

    def look() -> tuple[bool, str]:
        found, progress = missing(), Replica(new).progress()
        return not found or not _advances(new), f"{found} {progress and progress.received}"

    clock.wait_while_changing(look, CATCH_UP_SECONDS, STILL_SECONDS)
    return missing()


def _advances(new: Server) -> bool:
    """Return whether the new source may still get transactions from the old one, or apply what it has got."""
    state = Replica(new).status()
    return bool(state and state.applying and (state.connected or Replica(new).backlog()))


def beyond(gtids: str, server: Server) -> dict[str, gtid.Ranges]:
    return gtid.beyond(gtids, BinaryLog(server).gtids())


def _refuse_waiting(lab: Lab, new: Server, old: str) -> None:
    """Raise LabError if the old source's log has more than the new source has received: a commit waits there.

    MySQL does not count a transaction as executed before it is acknowledged.
    """
    if not lab.node(old).answers_soon():
        return
    progress = Replica(new).progress()
    if progress and progress.received < BinaryLog(lab.node(old).server()).end():
        raise WouldLose(
            f"{new.name} is behind: commits wait on {old}, and {new.name} has not received them",
            "a replica that has received every transaction",
            HOW_TO_INSIST.format(new.name),
        )


def set_role(lab: Lab, server: Server, *, source: bool, waits: bool = False) -> None:
    """Write the options that a server starts with from now on, one a line."""
    options = {"read-only": not source}
    if replication.of(lab).acknowledges:
        options[f"loose-{server.dialect.semisync_source}_enabled"] = waits
        options[f"loose-{server.dialect.semisync_replica}_enabled"] = not source
    lines = [f"--{name}={int(on)}\n" for name, on in options.items()]
    lab.node(server.name).put(ROLE, "".join(lines).encode())


def wait_for_replicas(lab: Lab, source: Server) -> None:
    """Let a source wait for its replicas if the topology does; with no replica each commit would take the timeout."""
    set_role(lab, source, source=True, waits=True)
    semisync = SemiSync(source)
    if replication.of(lab).acknowledges and not semisync.status().active:
        # A source that fell back waits again when its newest commit is acknowledged, which may never be so under load.
        # Switched off and on, it waits at once.
        semisync.set(False)
        semisync.set(True)


# --- taken back -------------------------------------------------------------------------------------------------------


def rejoin(lab: Lab, node: str, discard_errant: bool = False) -> TakenBack:
    """Let a node follow the source: for example an old source that has come back.

    LabError if it has errant transactions, unless `discard_errant` is set: then its data are replaced by the source's.
    """
    refuse_unable(lab, REJOIN)
    lab.topology.node(node)
    source = lab.node(_source_for(lab, node)).server()
    old = lab.node(node).server()
    replica = Replica(old)
    clock.wait_until(lab.node(node).answers, f"the server of {node} to answer", ANSWER_SECONDS, every=0.1)
    # Also what a replica has received and not applied: that would be discarded with its relay log.
    errant = beyond(f"{BinaryLog(old).gtids()},{received.gtids(lab, node)}", source)
    if errant and not discard_errant:
        raise LabError(
            f"{node} has {gtid.words(errant)}, which {source.name} lacks",
            f"no transaction that {source.name} lacks",
            f"./lab rejoin {node} --discard-errant, which replaces its data by {source.name}'s",
        )
    if replica.status():
        # A replica that a failover could not repoint; the source sends it again what it has not applied.
        replica.stop_following(lose=True)
    received.forget(lab, node)
    old.set_global(read_only=1)
    if errant:
        with requests_made.noted(requests_made.DEFINES, node):
            BinaryLog(old).reset_gtids_to(clone(source, old))
    else:
        replica.resume()
    follow_as_replica(lab, old, source.name)
    wait_for_replicas(lab, source)
    replica.wait_for(BinaryLog(source).position())
    return TakenBack(node, source.name, gtid.words(errant) if errant else "")


def follow_as_replica(lab: Lab, server: Server, source: str) -> None:
    """Let a former source replicate from another node, now and after each start."""
    if replication.of(lab).acknowledges:
        # It has no replica: its applier would wait for an acknowledgement until the timeout ends.
        SemiSync(server).set(False)
        SemiSync(server).enable_semisync_replica()
    Replica(server).follow(*dialled(lab, source, server.name))
    set_role(lab, server, source=False)


def _source_for(lab: Lab, node: str) -> str:
    """Return the only other node that accepts writes and has no source; LabError if `node` follows it or a relay."""
    answering = awake(lab)
    following = sources(lab, answering)
    serving = [name for name in answering if name not in {node, *following} and takes_writes(lab, name)]
    if len(serving) != 1:
        found = ", ".join(serving) or "no node"
        expected = "exactly one writable server that is not a replica"
        raise LabError(f"{found} could be the source of {node}", expected, "./lab status")
    if following.get(node) in {*serving, *following}:
        raise LabError(
            f"{node} already replicates from {following[node]}", "a node that is not a replica", "./lab status"
        )
    return serving[0]


# --- the link between -------------------------------------------------------------------------------------------------


def dialled(lab: Lab, source: str, target: str) -> tuple[str, int]:
    """Return the host and port at which `target` reaches `source` across their link, which is made if there is none.

    It is Toxiproxy's. If a manager tells replicas whom to follow, it knows the servers' own names; packet rules lead
    these to the link.
    """
    port = link_port(lab, source, target)
    manager = lab.manager
    return (source, SERVER_PORT) if manager and manager.kind.named_links else ("toxiproxy", port)


def link_port(lab: Lab, source: str, target: str) -> int:
    """Return the port of `source` for `target` at Toxiproxy: of the topology's link, or of a new one.

    A new link is as slow as the slower of the two nodes' links.
    """
    names = [node.name for node in lab.topology.nodes]
    if not {source, target} <= set(names):
        raise unknown_name(f"node of {lab.name}", f"{source}-{target}", names, "./lab status")
    name, port = link_name(source, target), lab.topology.port_between(source, target)
    if port not in {link.port for link in lab.topology.links} and name not in lab.proxied():
        lab.toxiproxy_beside(target).create(name, f"0.0.0.0:{port}", lab.server_for(source, target))
        for body in _slowest(lab, {source, target}):
            lab.link(name).add(body)
    return port


def _slowest(lab: Lab, ends: set[str]):
    """Return the bodies of the slowest toxic that the lab was given on a link of these nodes."""
    state = lab_files.saved_state(lab.name)
    names = state.toxics if state else lab.topology.toxics
    toxics = [
        catalogue.toxic(names[link.name])
        for link in lab.topology.links
        if {link.source, link.target} & ends and link.name in names
    ]
    return max(toxics, key=lambda toxic: toxic.round_trip_ms).bodies if toxics else ()
