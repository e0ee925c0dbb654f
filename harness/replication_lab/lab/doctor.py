"""The checks of `lab doctor`: the machine, the engine, the images, and leftovers."""

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.world import catalogue, host, installing
from replication_lab.world.disks import overlay
from replication_lab.world.docker import (
    beside_nodes,
    compose_version,
    engine,
    images,
    labels,
    leftovers,
    project,
    reach,
    servers,
    sites,
)
from replication_lab.world.docker import machine as machine_of_engine
from replication_lab.world.docker.machine import EngineMachine
from replication_lab.world.host import HERE, MachineFiles
from replication_lab.world.machines import vm
from replication_lab.world.packets import packet_rules

# A share of the last 10 s in which tasks waited for a CPU, and the space that images take.
BUSY, LEAST_GB = 0.25, 3
# What keeps neighbours from the ports of labs: a newer engine, or a rule for the interface that leads to them.
CLOSE = (
    "upgrade Docker to 28.3.3 or newer; or as root:\n"
    "iptables -I DOCKER-USER -i INTERFACE -m conntrack --ctstate NEW -j DROP"
)


class Finding(msgspec.Struct, frozen=True):
    """The result of one check; `next_step` is the command that repairs it."""

    what: str
    found: str
    ok: bool
    next_step: str = ""


def examine() -> list[Finding]:
    """Run all checks, in the order in which they matter; without an engine only those that need none."""
    machine = host.describe()
    seen = [
        Finding(
            "machine",
            f"{machine['system']}, {machine['cpus']} CPUs, {machine['memory_mib']} MiB of memory, "
            f"kernel {machine['kernel']}",
            True,
        ),
        Finding("python", str(machine["python"]), True),
        _attempt(
            "docker engine",
            lambda: engine.client().version()["Version"],
            "./lab up (installs and starts an engine if permitted)",
        ),
        _attempt("docker compose", compose_version.version, ""),
    ]
    if not all(finding.ok for finding in seen[2:]):
        return [*seen, _noise(), _packet_rules()]
    found = machine_of_engine.facts()
    where = found.elsewhere or "this machine"
    said = f"{where}: {found.processor}, {found.cpus} CPUs, {found.memory_mib} MiB of memory, kernel {found.kernel}"
    if found.rootless:
        said += "; the engine is rootless: no emulated disks, no virtual machines, no dedicated CPUs for sites"
    machines = [
        Finding("engine's machine", said, True),
        _published(found),
        *[_attempt(f"site {endpoint}", partial(_version_at, endpoint), "./lab status") for endpoint in sites.others()],
    ]
    return [*seen, *machines, _load(found), _packet_rules(), *_in_engine(found)]


def _attempt(what: str, look: Callable[[], str], next_step: str) -> Finding:
    try:
        return Finding(what, look(), True)
    except LabError as error:
        return Finding(what, error.found, False, error.next_step or next_step)


def _version_at(endpoint: str) -> str:
    return str(sites.client(endpoint).version()["Version"])


def _published(found: EngineMachine) -> Finding:
    """Return whether only the engine's machine reaches a lab's ports; a remark, because few networks are hostile."""
    exposed = machine_of_engine.reached_by_neighbours(found)
    return Finding("published ports", exposed or "only the engine's machine reaches them", True, exposed and CLOSE)


def _load(found: EngineMachine) -> Finding:
    """Return whether the engine's machine is quiet; where it is another one, only once its reader's image is built."""
    if found.elsewhere and not images.is_current(reach.IMAGE):
        return Finding("quiet", f"not read: the image {reach.IMAGE} is not built yet; {found.elsewhere}", True)
    try:
        return _noise(reach.machine_files(host.LOAD, host.PRESSURES))
    except LabError as error:
        return Finding("quiet", f"load cannot be read: {error.found}", False, "verdicts about ratios are UNKNOWN here")


def _noise(files: MachineFiles = HERE) -> Finding:
    pressure = host.cpu_pressure(files)
    waited = "" if pressure is None else f", tasks waited for a CPU in {pressure:.0%} of the last 10 s"
    quiet = pressure is None or pressure < BUSY
    next_step = "" if quiet else "stop other busy processes before lab run, or verdicts will be UNKNOWN"
    return Finding("quiet", f"load {host.load1(files):.2f}{waited}", quiet, next_step)


def _packet_rules() -> Finding:
    rules = packet_rules.stale()
    if rules is None:
        return Finding("packet rules", "not checked: only root may read them", True)
    if not rules:
        return Finding("packet rules", "none left by a killed Docker engine", True)
    subnets = sorted({rule.subnet for rule in rules if rule.rewrites_sources})
    harm = f"; they rewrite addresses in a new network with the subnet {' or '.join(subnets)}" if subnets else ""
    return Finding(
        "packet rules",
        f"{len(rules)} left by a killed Docker engine, for bridges that no longer exist{harm}",
        False,
        "as root, delete each:\n" + "\n".join(rule.delete for rule in rules),
    )


class Undone(msgspec.Struct, frozen=True):
    """The files that were removed from apt's configuration, and what stays on this host."""

    removed: list[str]
    stays: list[str]


def undo(tell: Tell) -> Undone:
    """Remove what the lab added to apt, on a terminal only after Enter; list what stays, and how to remove it."""
    added = installing.added()
    packages = " ".join(added.packages)
    stays = [f"packages {packages}; to remove them: apt-get remove {packages}"] if packages else []
    stays.append("the lab's images and labs; to remove them: ./lab clean --images")
    for path in added.files:
        tell(f"remove  {path}")
    for each in stays:
        tell(f"stays   {each}")
    if not added.files or not installing.confirmed():
        return Undone([], stays)
    installing.remove(added.files)
    return Undone(added.files, stays)


def _in_engine(found: EngineMachine) -> Iterator[Finding]:
    yield _free_space(found)
    tools = ("toxiproxy", "load", beside_nodes.IMAGE, "sidecar", *overlay.IMAGES, overlay.MACHINE)
    for name in (*tools, *catalogue.engines()):
        if name in tools or not catalogue.engines()[name].image:
            why = "" if name in tools else servers.foreign(name)
            yield Finding(f"image {name}", f"refused: {why}" if why else images.state(name), True)
    yield _attempt("virtual machines", _launcher, "unset LAB_VM")
    yield from _labs()


def _labs() -> Iterator[Finding]:
    others = project.others()
    mine = [name for name in project.all_labs() if name not in others]
    yield Finding("labs", ", ".join(mine) or "none running", True)
    if others:
        yield Finding("other labs", f"{project.others_shown()}; removed only by ./lab down --lab NAME", True)
    if unknown := labels.strangers():
        said = f"{', '.join(unknown)}: the label comes from the image, or the Compose project is missing; never touched"
        yield Finding("unknown, with the lab's label", said, True)
    stale = leftovers.left_behind()
    yield Finding("leftovers", ", ".join(stale) or "nothing", not stale, "./lab clean" if stale else "")


def _free_space(found: EngineMachine) -> Finding:
    free = machine_of_engine.free_megabytes(engine.client())
    if free is None:
        why = f"the image {machine_of_engine.READER_NAME} is not built yet; {found.elsewhere}"
        return Finding("disk", f"free space is not read: {why}", True)
    is_enough = free > LEAST_GB * 1000
    next_step = "" if is_enough else "docker system prune"
    return Finding("disk", f"{free / 1000:.0f} GB free for images", is_enough, next_step)


def _launcher() -> str:
    vm.refuse_host()
    if not vm.is_known():
        return f"{vm.KVM} is not tested yet; the first virtual machine will try to boot with it"
    chosen = vm.launcher()
    return f"{chosen.name}: {chosen.because}"
