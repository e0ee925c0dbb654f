"""Labs as a user wants them: up and proved, as they are, and gone."""

from collections.abc import Callable
from contextlib import closing
from statistics import median

from harness.errors import LabError
from harness.faults import toxic as toxic_fault
from harness.probes.commit_latency import TABLE, CommitLatency
from harness.probes.round_trip import RoundTrip
from harness.probes.semisync import WAITED_SHARE
from harness.toxic import Toxic
from harness.world import catalogue, compose, docker_engine, images
from harness.world.compose import Lab, Proof

Tell = Callable[[str], None]
COMMITS = 3


def image_names(engine: str, load: bool = False) -> list[str]:
    """The images that a lab of this engine needs from images/."""
    of_load = ["load"] if load else []
    return of_load if images.source() == "upstream" else [engine, "toxiproxy", *of_load]


def up(
    topology: str,
    engine: str,
    name: str | None = None,
    toxics: dict[str, str] | None = None,
    tell: Tell = print,
    keep: bool = True,
) -> Lab:
    """A lab that is up and proved, the running one if it is whole; LabError, and nothing left, when it cannot be had.

    `toxics` maps links to names in toxics/, in place of the topology's own. A lab that is not kept is taken for left
    behind once this process has ended.
    """
    found = catalogue.topology(topology)
    catalogue.engine(engine, images.source())
    wanted = {**found.toxics, **(toxics or {})}
    for link, toxic in wanted.items():
        found.link(link)
        catalogue.toxic(toxic)
    name = name or f"lab-{topology}"
    compose.check_name(name)
    docker_engine.ensure()
    tidy(tell)
    if running := compose.all_labs().get(name):
        return _again(running, engine, wanted, tell)
    images.ensure(image_names(engine))
    tell(f"starting {name}: {topology}, {engine}")
    compose.refuse_old_data(name)
    lab = compose.start(found, engine, name)
    try:
        proofs = prove(lab, wanted, tell)
        if keep:
            lab.keep(proofs, wanted)
    except BaseException:
        with compose.signals_held():
            lab.down()
        raise
    return lab


def tidy(tell: Tell) -> None:
    """Remove what killed commands left behind, saying so."""
    for project in compose.sweep():
        tell(f"removed {project}: a command that was killed had left it behind")


def _again(lab: Lab, engine: str, wanted: dict[str, str], tell: Tell) -> Lab:
    if lab.engine != engine:
        raise LabError(f"{lab.name} is up with {lab.engine}", f"{engine}, or another --name", f"./lab down {lab.name}")
    stopped = [service for service, container in lab.containers.items() if container.status != "running"]
    if stopped:
        raise LabError(
            f"{', '.join(stopped)} of {lab.name} stopped", "all running", f"./lab down {lab.name}, then up again"
        )
    if lab.state() is None:
        tell(f"{lab.name} is up and was never proved")
        lab.keep(prove(lab, wanted, tell), wanted)
    else:
        tell(f"{lab.name} is up already; nothing changed")
    return lab


def prove(lab: Lab, toxics: dict[str, str], tell: Tell = print) -> list[Proof]:
    """Put the toxics on and prove links and replication; LabError at the first thing that is not so."""
    proofs = [_prove_link(lab, link, catalogue.toxic(toxic)) for link, toxic in toxics.items()]
    if lab.topology.replication == "semisync":
        proofs += _prove_semisync(lab, toxics)
    proofs += [_prove_row_arrives(lab)]
    for proof in proofs:
        tell(f"  {'proved' if proof.ok else 'NOT SO'}: {proof.what}: {proof.found}")
    for proof in proofs:
        if not proof.ok:
            raise LabError(
                f"{proof.what}: {proof.found}", "the state that the topology promises", f"./lab up {lab.topology.name}"
            )
    return proofs


def _prove_link(lab: Lab, link: str, toxic: Toxic) -> Proof:
    wire = lab.wire(link)
    toxic_fault.clear(wire)
    with closing(RoundTrip(wire, lab.server(lab.topology.link(link).source))) as probe:
        bare = probe.typical()
        if bare is None:
            raise LabError(f"nothing comes back across {link} without a toxic", "a round trip", "./lab status")
        toxic_fault.calibrated(wire, toxic, probe)
        found, ok = toxic_fault.realised(toxic, probe)
    return Proof(f"link {link} is {toxic.name}", f"{found}; {bare:.1f} ms without it", ok)


def _prove_semisync(lab: Lab, toxics: dict[str, str]) -> list[Proof]:
    """A commit on the source takes a round trip and is counted as acknowledged; a status may be stale, this is not."""
    source = lab.topology.source.name
    server = lab.server(source)
    commit = CommitLatency(server)
    commit.commits(1)
    before = server.semisync()
    latency = median(commit.commits(COMMITS))
    after = server.semisync()
    acknowledged = after.acknowledged - before.acknowledged
    # The nearest replica answers first; the links' round trips were proved just before.
    trip = min(catalogue.toxic(toxics.get(link.name, "lan")).round_trip_ms for link in lab.topology.links_from(source))
    trips = f" ({latency / trip:.2f} round trips)" if trip else ""
    return [
        Proof(
            "semi-sync is on",
            f"{after.replicas} replica(s) connected, wait point {after.wait_point or 'AFTER_COMMIT'}",
            after.active,
        ),
        Proof(
            "a commit waits for the replica",
            f"{latency:.1f} ms a commit{trips}; {acknowledged} of {COMMITS} acknowledged",
            latency >= WAITED_SHARE * trip
            and acknowledged == COMMITS
            and after.unacknowledged == before.unacknowledged,
        ),
    ]


def _prove_row_arrives(lab: Lab) -> Proof:
    """A row written on the source is waited for on every other node."""
    source = lab.server(lab.topology.source.name)
    CommitLatency(source).commits(1)
    count = f"SELECT COUNT(*) FROM {TABLE}"
    written = source.value(count)
    for link in lab.topology.links:
        lab.server(link.target).wait_for(lab.server(link.source).position())
    others = [node.name for node in lab.topology.nodes if node.role != "source"]
    found = {name: lab.server(name).value(count) for name in others}
    return Proof(
        "a row written on the source arrives",
        ", ".join(f"{rows} of {written} on {name}" for name, rows in found.items()),
        all(rows == written for rows in found.values()),
    )


def down(name: str | None, tell: Tell = print) -> list[str]:
    """Take a lab away with its data; the only one when no name is given, and no error when there is none."""
    docker_engine.client()
    tidy(tell)
    if name is None and not compose.all_labs():
        tell("no lab is up")
        return []
    idle = [known for known, lab in compose.all_labs().items() if not lab.is_in_use()]
    lab = compose.find(name or (idle[0] if len(idle) == 1 else None))
    if lab.is_in_use() and not lab.is_own():
        raise LabError(f"a running command uses {lab.name}", "it to end first", "./lab status")
    lab.down()
    tell(f"{lab.name} is down; its containers, networks and volumes are gone")
    return [lab.name]


def set_toxic(lab: Lab, link: str, toxic: str) -> Proof:
    """Put a toxic on a link of a running lab (or take all off: none), and measure what came of it."""
    wire = lab.wire(link)
    if toxic == "none":
        toxic = "lan"
    return _prove_link(lab, wire.name, catalogue.toxic(toxic))


def clean(with_images: bool, tell: Tell = print) -> list[str]:
    """Remove what killed commands left behind, and every lab that no running command uses; what was removed."""
    docker_engine.client()
    gone = compose.sweep()
    for name, lab in compose.all_labs().items():
        if not lab.is_in_use():
            tell(f"removing {name}")
            lab.down()
            gone.append(name)
    if with_images:
        gone += images.remove_all()
    return gone
