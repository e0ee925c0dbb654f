"""The drills of an attached project: those of drills/attached for each of its links and servers, run on it as it is."""

from collections.abc import Iterator, Sequence

import msgspec

from replication_lab import replication
from replication_lab.attach import writable
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.event import KEPT, End
from replication_lab.model.core.progress import Tell
from replication_lab.model.drill.drill import Drill
from replication_lab.runner import described, drill_set
from replication_lab.runner.application import Probe
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.world import catalogue, own, web
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.journal import Journal, ledger
from replication_lab.world.mysql.own_schema import own_schema

FOLDER = "attached"
# The least time before and after a fault in which an application is probed.
PROBED_SECONDS = 5
# Faults that are not for a project that the lab did not start, each with the reason.
REFUSED = {
    "disk-full": "its disk is this machine's own, which a drill must not fill",
    "fail-disk": "its disk is not emulated",
    "slow-disks": "its disk is not emulated",
    "clock": "only a server that the lab starts can have its own clock",
    "clock-site": "only a server that the lab starts can have its own clock",
    "new-replica": "it would remove the data of a server that the lab did not start",
    "upgrade": "only a server that the lab starts is replaced by another one",
}


class _Template(msgspec.Struct):
    """The key of a file that says what it is filled in for.

    `node`: each server; `replication`: each link between two of them; `link`: each link of an application to a server
    that takes writes; `reads`: each to another server; `manager`: the project's failover manager, if it was named.
    """

    applies: str = msgspec.field(name="for")


def known(lab: AttachedLab) -> dict[str, Drill]:
    """Return the drills that the project can have, by name."""
    found = {}
    for template in catalogue.drills(FOLDER):
        path = catalogue.drill_file(FOLDER, template)
        with own.explained(path) as text:
            applies = msgspec.yaml.decode(text, type=_Template).applies
            for target, words in _targets(lab, applies):
                name = f"{template}-{target}"
                drill = drill_set.parse(name, lab.topology, _filled(text, words), own.file_of(path))
                for fault in {spec.fault for spec in drill.fault_specs} & {*REFUSED}:
                    raise LabError(f"{fault} on {lab.name}: {REFUSED[fault]}", "another fault")
                # Clients across a link test that link.
                at_proxy = lab.attached.endpoint if not drill.through else ""
                found[name] = drill.at_endpoint(at_proxy, {}) if at_proxy else drill
    return found


def _targets(lab: AttachedLab, applies: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each target that a file is for, with the words that stand for it there."""
    kind, writer = replication.kind_of(lab.topology), replication.of(lab).written_at()
    if applies == "node":
        # Where the servers choose the one that takes writes, clients have to try all.
        nodes = [*lab.attached.nodes] if kind.elects else [writer]
        clients = ", ".join(f'"{node}": {4 if len(nodes) == 1 else 2}' for node in nodes)
        common = {"writer": writer, "clients": f"{{{clients}}}", "killed": f"{kind.killed_seconds:g}"}
        for node in lab.attached.nodes:
            yield node, {"node": node, **common}
        return
    if applies == "manager":
        if lab.attached.manager:
            yield lab.attached.manager, {"manager": lab.attached.manager, "writer": writer}
        return
    for link in lab.attached.links:
        use = "link" if kind.writes_anywhere or link.server == writer else "reads"
        if applies == ("replication" if link.consumer in lab.attached.nodes else use):
            # Clients across a link write at the server that it leads to.
            at = link.server if applies == "link" else writer
            words = {"link": link.name, "consumer": link.consumer, "server": link.server, "writer": at}
            yield link.name, words


def _filled(text: str, words: dict[str, str]) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("for:")]
    filled = "\n".join(lines)
    for word, value in words.items():
        filled = filled.replace(f"{{{word}}}", value)
    return filled


def chosen(lab: AttachedLab, fault: str | None, seconds: float | None) -> list[Drill]:
    """Return all drills of a project, those of one fault, or one of them by its whole name, with this duration."""
    drill_set.refuse_no_time(seconds)
    every = known(lab)
    if fault in REFUSED:
        raise LabError(
            f"{fault} on {lab.name}: {REFUSED[fault]}", f"one of {', '.join(every)}", "./lab list topologies"
        )
    group = f"{fault}-" if fault in catalogue.drills(FOLDER) else "/"
    found = [each for name, each in every.items() if fault in (None, name) or name.startswith(group)]
    if not found:
        raise unknown_name(f"drill of {lab.name}", str(fault), every, f"./lab drill --lab {lab.name}")
    return [each.with_duration(seconds) for each in found]


def probed(drills: Sequence[Drill]) -> list[Drill]:
    """Return drills that are long enough before and after their faults for an application to be probed there."""
    return [
        msgspec.structs.replace(each, before=max(each.before, PROBED_SECONDS), after=max(each.after, PROBED_SECONDS))
        for each in drills
    ]


def probe_of(lab: AttachedLab, text: str, service: str = "") -> Probe:
    """Return the probe of a text: a URL, or a command for a consumer's container; LabError if it fails now."""
    inside = "" if web.is_url(text) else service or lab.attached.links[0].consumer
    probe = Probe(lab, text, inside)
    probe.check()
    return probe


def run(
    lab: AttachedLab, drills: Sequence[Drill], seed: int, *, journal: Journal, tell: Tell, probe: Probe | None = None
) -> None:
    """Run drills one after another on the project; the run ends at one after which the project is not as before.

    LabError, and nothing written, if the servers would not replicate what a drill writes.
    """
    kind = replication.of(lab)
    servers = {node: kind.server(node) for node in lab.attached.nodes}
    writable.refuse_unfit(servers, kind.written_at(), lab.attached.follows, lab.name)
    with journal.recording(drill_set.opening(lab.name, lab.engine, drills, seed)):
        journal.write(described.came_up(lab, kind.writer(), drill_set.SETTINGS))
        spoilt = ""
        for each in drills:
            spoilt = _one(lab, each, seed, journal=journal, tell=tell, probe=probe)
            if spoilt:
                spoilt = f"{lab.name} did not return to its state before the drill: {spoilt}"
                tell(f"run stopped: {spoilt}")
                break
        journal.write(End(why=KEPT if spoilt else "done", reason=spoilt))


def _one(lab: AttachedLab, drill: Drill, seed: int, *, journal: Journal, tell: Tell, probe: Probe | None) -> str:
    """Run and record one drill; return why the project is not as before, an empty string if it is."""
    evidence = None
    try:
        kind = replication.of(lab)
        writer = kind.writer()
        with own_schema(writer):
            evidence = run_drill(lab, DrillRequest(drill, seed, probe=probe), ledger(journal.folder, drill.name), tell)
            journal.write(evidence)
            if kind.elects and not evidence.spoilt:
                kind.take_over(writer.name)
    except LabError as error:
        if evidence is None:
            raise
        # A doubt of the drill names the cause, such as a server that did not come back.
        return evidence.spoilt or f"the schema lab could not be removed: {error.found}"
    return evidence.spoilt
