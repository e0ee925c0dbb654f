"""Labs as a user wants them: up and proved, changed, and removed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Unpack

from msgspec import structs

from replication_lab import replication
from replication_lab.faults.link_proof import prove_link, realised_packets
from replication_lab.faults.toxic_calibration import calibrated_and_measured, clear, put
from replication_lab.lab import disks, endpoints, killed_views, managers, memory, sites, sql_files, start_options
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.companion import AskedCompanion, is_own
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.storage import AUTO, DiskOptions, Storage, parse_storage
from replication_lab.model.lab.topology import Topology
from replication_lab.model.lab.toxic import Toxic
from replication_lab.probes.round_trip import PINGS, RoundTrip
from replication_lab.world import at_once, catalogue, clock, host, lab_files, lock, owners, signals
from replication_lab.world.disks import overlay
from replication_lab.world.docker import attachments, images, labels, leftovers, option_check, project, reach, servers
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.lab_files import LabState
from replication_lab.world.machines import vm
from replication_lab.world.packets import large_packets, packet_ability, packet_rules
from replication_lab.world.packets.link import RunningLink

# The round trip of a link without a toxic is a millisecond or two. The machine is busy if it is longer than this, or if
# some task waited for a CPU for this share of the last 10 s.
BUSY_MS, BUSY_PRESSURE = 5.0, 0.5
# How long a link is measured again on a busy machine.
BUSY_SECONDS = 30


def image_names(
    engine: str,
    load: bool = False,
    topology: Topology | None = None,
    storage: dict[str, Storage] | None = None,
    endpoint: AskedCompanion | None = None,
    manager: AskedCompanion | None = None,
) -> list[str]:
    """Return the images that a lab of this engine needs from images/."""
    own = [*replication.kind_of(topology).images, *(["garbd"] if topology.arbitrators else [])] if topology else []
    own += ["load"] if load and "load" not in own else []
    own += overlay.images(storage or {})
    own += filter(is_own, [catalogue.endpoint(endpoint.name).image] if endpoint else [])
    own += managers.images(manager)
    server = servers.own_images(servers.of_nodes(topology, engine).values() if topology else [engine])
    return [*server, *own] if topology and not topology.links else [*server, "toxiproxy", *own]


def up(asked: LabRequest, tell: Tell = print) -> Lab:
    """Return a lab that is up and proved, or the running one if it is healthy; LabError, and nothing left, if it fails.

    The topology's own storage is added to what is asked for.
    """
    topology, engine, name = asked.topology, asked.engine, asked.name
    replication.kind_of(topology)
    replication.refuse_unfit_servers(topology, engine)
    project.check_state_transfer()
    managers.refuse_no_address(asked.endpoint, asked.manager)
    catalogue.toxics_on(asked.wanted_toxics)
    for file in asked.init:
        sql_files.lines_for(file, topology)
    storage = topology.storage | asked.storage
    docker_engine.ensure()
    tidy(tell)
    with lock.lab_held(name, f"lab up {topology.name}"):
        return _up(asked, storage, tell)


def _up(asked: LabRequest, storage: dict[str, Storage], tell: Tell) -> Lab:
    topology, engine, name = asked.topology, asked.engine, asked.name
    attachments.refuse_elsewhere(name)
    if running := project.all_labs().get(name):
        refuse_other_user(name, running.owners)
        return _again(running, asked, tell)
    servers.make_ready(topology, engine)
    images.ensure(image_names(engine, asked.load, topology, storage, asked.endpoint, asked.manager))
    packet_ability.refuse_unable(catalogue.toxics_on(asked.wanted_toxics).items(), [topology])
    placed = replace(asked, storage=placed_on(storage, engine), launcher=launcher_of(topology))
    by = f", virtual machines run by {placed.launcher}" if placed.launcher else ""
    behind = f", behind {asked.endpoint}" if asked.endpoint else ""
    behind += f", with the manager {asked.manager}" if asked.manager else ""
    if asked.options:
        start_options.refuse_unable(topology, placed.storage)
        option_check.check(topology, engine, {node: each.file for node, each in asked.options.items()})
    if catalogue.is_resized(topology.name):
        memory.check([(topology, engine, placed.storage)])
    _warn_of_stale_rules(topology, tell)
    where = "".join(f", {node} at {site}" for node, site in asked.sites.items() if site.endpoint)
    where += f", published on {asked.address}" if asked.address else ""
    tell(f"starting {name}: {topology.name}, {engine}{by}{_stored(placed.storage)}{behind}{where}")
    labels.refuse_taken(name, {"", *(site.endpoint for site in asked.sites.values())})
    lab = project.start(placed)
    try:
        proofs = _proofs_with_options(lab, asked, tell)
        if asked.keep:
            _save(lab, asked, proofs)
    except BaseException:
        with signals.signals_held():
            lab.down()
        raise
    return lab


def _warn_of_stale_rules(topology: Topology, tell: Tell) -> None:
    """Warn if a killed Docker engine left rules that rewrite addresses: a cluster in the same subnet would not form."""
    if "sidecar" not in replication.kind_of(topology).images:
        return
    subnets = sorted({rule.subnet for rule in packet_rules.stale() or () if rule.rewrites_sources})
    if subnets:
        tell(
            f"warning: a killed Docker engine left packet rules that rewrite addresses in {', '.join(subnets)}. "
            "In such a subnet the nodes of this lab do not join each other. To list and delete the rules: ./lab doctor"
        )


def _proofs_with_options(lab: Lab, asked: LabRequest, tell: Tell) -> list[Proof]:
    """Restart nodes with the options that were asked for, run the files of SQL, and prove the lab and the options."""
    if asked.options:
        tell(f"restarting {', '.join(asked.options)} with the given options")
        start_options.start_with(lab, asked.options)
    # Before the links are slow; the proofs then see the rows on every node.
    sql_files.run_at_start(lab, asked.init, tell)
    # The manager after every restart, on which it would act; its address may be the endpoint.
    proofs = managers.prove(lab) + endpoints.prove(lab)
    _refuse_unproved(lab, proofs, tell)
    proofs += prove(lab, catalogue.toxics_on(asked.wanted_toxics), tell)
    settings = start_options.proofs(lab, asked.options)
    for setting in settings:
        tell(f"  verified: {setting.what}")
    return [*proofs, *settings]


def storage_of(
    topology: str, texts: Sequence[str], given: Sequence[str] = (), **common: Unpack[DiskOptions]
) -> dict[str, Storage]:
    """Return {node: Storage} for [NODE=]LEVEL texts, checked against the topology's nodes, known disks and backends.

    `given` are the options about disks that the user gave besides them.
    """
    found = catalogue.topology(topology)
    asked = [*(["--storage"] if texts else []), *given]
    if asked and replication.kind_of(found).in_machines:
        raise LabError(
            f"{', '.join(asked)} for {topology}, whose virtual machines have their own disk",
            "another topology; here LAB_DISK_SIZE sets the size, and `lab disk limit` the limits once the lab is up",
            "./lab disk limit node1 disk1 write_iops=11 flush_us=43000",
        )
    catalogue.disk(common["disk"])
    if common["backend"] != AUTO:
        catalogue.backend(common["backend"])
    names = [node.name for node in found.nodes]
    return parse_storage(texts, names, [node.name for node in found.replicas], **common)


def placed_on(storage: dict[str, Storage], engine: str) -> dict[str, Storage]:
    """Return the storages with this host's backends and launchers; LabError if it or the engine lacks support."""
    placed = overlay.with_backend(storage)
    machines = [node for node, each in placed.items() if each.backend == overlay.MACHINE]
    if machines and engine != "mariadb":
        raise LabError(
            f"{engine} in a virtual machine, for {', '.join(machines)}",
            "mariadb: the machine's root file system has no other server",
            "./lab up --help",
        )
    images.ensure(overlay.images(placed))
    return vm.with_launcher(placed)


def launcher_of(topology: Topology) -> str:
    """Return what starts the topology's own virtual machines here, if it has any; LabError without the memory."""
    if not replication.kind_of(topology).in_machines:
        return ""
    memory.check([(topology, "", {})])
    return vm.launcher().name


def _stored(storage: dict[str, Storage]) -> str:
    return "".join(
        f", {node} on {each.level} of {each.members} {each.disk} by {each.by}" for node, each in storage.items()
    )


def tidy(tell: Tell) -> None:
    """Remove what killed commands left behind, restore what they changed, and report it."""
    for name in leftovers.sweep(tell):
        tell(f"removed {name}: leftover of a killed command")
    killed_views.restore(tell)


def _again(lab: Lab, asked: LabRequest, tell: Tell) -> Lab:
    if lab.engine != servers.shown(asked.topology, asked.engine):
        raise LabError(
            f"{lab.name} is already running with {lab.engine}",
            f"{asked.engine}, or another --lab",
            f"./lab down --lab {lab.name}",
        )
    sites.refuse_another_place(lab, asked)
    if asked.init:
        raise LabError(
            f"{lab.name} is already running, and --init runs files only at the first start",
            "`lab sql --file` for a running lab",
            f"./lab sql {replication.of(lab).written_at()} --file FILE --lab {lab.name}",
        )
    stopped = [service for service, container in lab.containers.items() if container.status != "running"]
    if stopped:
        are_nodes = set(stopped) <= {node.name for node in lab.topology.nodes}
        raise LabError(
            f"{', '.join(stopped)} of {lab.name} {'is' if len(stopped) == 1 else 'are'} not running",
            "all nodes running",
            f"./lab start {' '.join(stopped)} --lab {lab.name}"
            if are_nodes
            else f"./lab down --lab {lab.name}, then up again",
        )
    state = lab_files.saved_state(lab.name)
    if state is None:
        tell(f"{lab.name} is running but was never verified")
        _save(lab, asked, _proofs_with_options(lab, asked, tell))
    elif asked.options and start_options.options_in(lab, asked.options) != state.options:
        raise LabError(
            f"{lab.name} is already running with other options",
            "the same --set and --cnf as before, none of them, or another --lab",
            f"./lab down --lab {lab.name}",
        )
    else:
        tell(f"{lab.name} is already running; nothing changed")
        if changes := " ".join(f"{link}={toxic}" for link, toxic in asked.toxics.items()):
            tell(f"its links keep their conditions; to change them: ./lab link set {changes} --lab {lab.name}")
    return lab


def prove(lab: Lab, toxics: Mapping[str, Toxic], tell: Tell = print) -> list[Proof]:
    """Put the toxics on and prove links and replication; LabError at the first proof that fails."""
    nodes = replication.of(lab)
    nodes.warm_up()
    proofs = large_packets.prove(lab.links)
    # Links do not affect each other, and a WAN's measurements are mostly waiting.
    proofs += at_once.of_each(lambda link: _prove_link(lab, link, toxics[link]), toxics)
    proofs += [*nodes.prove(toxics), *disks.prove(lab)]
    _refuse_unproved(lab, proofs, tell)
    return proofs


def _refuse_unproved(lab: Lab, proofs: Sequence[Proof], tell: Tell) -> None:
    for proof in proofs:
        tell(f"  {'verified' if proof.ok else 'FAILED'}: {proof.what}: {proof.found}")
    if broken := next((proof for proof in proofs if not proof.ok), None):
        said = f"{broken.what}: {broken.found}"
        raise LabError(said, "the state that the topology defines", f"./lab up {lab.topology.name}")


def _prove_link(lab: Lab, link: str, toxic: Toxic, in_use: bool = False) -> Proof:
    """Put a toxic on a link and measure it; on a busy machine again, until `BUSY_SECONDS` have passed.

    At first all pings are measured at once, then one after another: in a busy moment they lengthen each other. Before
    each further measurement the toxic is put on again, because a busy machine may have misled its calibration; on a
    link that is `in_use` it stays there, because clients would notice a moment without it.
    """
    proof, _ = _put_and_measured(lab, link, toxic, PINGS)
    if proof.ok or not toxic.is_measured:
        return proof
    began, again = clock.timer(), 0
    proof, bare_ms = _put_and_measured(lab, link, toxic, 1)
    while not proof.ok and _is_busy(bare_ms) and clock.timer() - began < BUSY_SECONDS:
        if in_use:
            proof = _measured_there(lab, link, toxic, bare_ms)
        else:
            proof, bare_ms = _put_and_measured(lab, link, toxic, 1)
        again += 1
    if again:
        proof = structs.replace(proof, found=f"{proof.found}; measured {again} times more, on a busy machine")
    return proof


def _is_busy(bare_ms: float) -> bool:
    return bare_ms > BUSY_MS or (host.cpu_pressure(reach.machine_files(host.PRESSURES)) or 0.0) > BUSY_PRESSURE


def _put_and_measured(lab: Lab, link: str, toxic: Toxic, lanes: int) -> tuple[Proof, float]:
    """Return the proof that the toxic acts, and the link's round trip without it in ms."""
    running = lab.link(link)
    clear(running)
    with closing(RoundTrip(running, lanes)) as probe:
        bare = probe.typical()
        if bare is None:
            raise LabError(f"link {link} does not answer without a toxic", "a round trip", "./lab status")
        _, measured = calibrated_and_measured(running, toxic, probe)
        proof = prove_link(probe, toxic, bare, measured)
        if not proof.ok and toxic.is_measured:
            # Once more: many links are measured at once, and a machine has busy moments.
            proof = prove_link(probe, toxic, bare)
    return proof, bare


def _measured_there(lab: Lab, link: str, toxic: Toxic, bare_ms: float) -> Proof:
    """Return the proof that a toxic acts that is on the link already; `bare_ms` is its round trip without it."""
    with closing(RoundTrip(lab.link(link))) as probe:
        return prove_link(probe, toxic, bare_ms)


def _save(lab: Lab, asked: LabRequest, proofs: list[Proof]) -> None:
    state = LabState(
        lab.topology.name, lab.engine, proofs, asked.wanted_toxics, start_options.options_in(lab, asked.options)
    )
    lab_files.save_state(lab.name, state)


def leave_up(lab: Lab, tell: Tell) -> str:
    """Let a run's own lab stay up when its command ends, until `lab down`; return why the run ends, for its record."""
    lab_files.save_state(lab.name, LabState(lab.topology.name, lab.engine, [], lab.topology.toxics))
    tell(f"{lab.name} stays up: ./lab status --lab {lab.name}; to remove it: ./lab down --lab {lab.name}")
    return f"--keep left {lab.name} up"


@contextmanager
def changing(name: str | None, command: str) -> Iterator[Lab]:
    """Give the lab of that name, which no other command changes or removes within the block."""
    lab = project.find(name)
    with lock.lab_held(lab.name, command):
        yield lab


def refuse_in_use(lab: Lab) -> None:
    """Raise LabError for a lab of another user, or if another command that still runs has started it."""
    refuse_other_user(lab.name, lab.owners)
    if lab.is_in_use() and owners.owner() not in lab.owners:
        raise in_use(lab.name)


def in_use(name: str) -> LabError:
    return LabError(f"{name} is in use by another lab command", "that command to finish", "./lab status")


def refuse_other_user(name: str, marks: Iterable[str]) -> None:
    """Raise LabError for a lab of another user; root, too, acts for that user by name only."""
    if user := next(filter(None, map(owners.other_user, marks)), ""):
        raise LabError(
            f"{name} is a lab of user {user}", "a lab of yours", f"as root: sudo -u '#{user}' ./lab down --lab {name}"
        )


def set_toxics(lab: Lab, toxics: dict[str, str]) -> list[Proof]:
    """Put a toxic on each of these links of a running lab (none removes all of a link's), and measure the result.

    A link whose far end does not answer cannot be measured: its proof says so, and that its proxy lists the toxic.
    """
    found = {lab.link(link).name: known_toxic(toxic) for link, toxic in toxics.items()}
    packet_ability.refuse_unable(found.items(), [lab.topology])
    return at_once.of_each(lambda link: _change_link(lab, link, found[link]), found)


def _change_link(lab: Lab, link: str, toxic: Toxic) -> Proof:
    running = lab.link(link)
    end = running.model.server
    if _can_answer(lab, running, end):
        return _prove_link(lab, link, toxic, in_use=True)
    put(running, toxic)
    listed, asked = {found.name for found in running.toxics()}, {body.name for body in toxic.bodies}
    said = f"its proxy lists {', '.join(sorted(listed)) or 'no toxic'}"
    # The packets of a burst are counted by the kernel rules, whether or not the far end gets them.
    on_packets, acts = realised_packets(toxic, running) if toxic.of_packets else ("", True)
    unknown = f"not verified: {end} does not answer" if toxic.of_streams.bodies or not toxic.bodies else ""
    found = "; ".join(part for part in (said, on_packets, unknown) if part)
    return Proof(f"link {running.name} is {toxic.name}", found, listed == asked and acts)


def _can_answer(lab: Lab, link: RunningLink, end: str) -> bool:
    """Return whether a link's far end can answer a ping; True for one that is no node."""
    if end not in {node.name for node in lab.topology.nodes}:
        return True
    node = lab.node(end)
    return node.state()[0] == "running" if link.model.echoes else node.answers_soon()


def known_toxic(name: str) -> Toxic:
    """Return the toxic for a name, a condition by number, or none; LabError for anything else."""
    return catalogue.toxic("lan" if name == "none" else name)
