"""A load whose clients are shared among containers on one or several sites, and begin at the same moment.

The latencies of all containers are merged one by one, so the quantiles are those of all transactions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.site import SERVER_PORT, Site
from replication_lab.model.lab.spread_load import LOAD
from replication_lab.model.question.load import Moments, planned
from replication_lab.world import at_once, clock, requests_made
from replication_lab.world.docker import beside_nodes, machine, reach, sites
from replication_lab.world.docker.containers import seconds_of
from replication_lab.world.docker.lab import USER, Lab
from replication_lab.world.docker.service import Service

# Seconds from the command to the first transaction: each container starts its clients and connects them within them.
START_SECONDS, SECONDS_A_CLIENT = 1.5, 0.005
# The largest share of the load's time by which a container may begin later than planned.
LATE = 0.05
# The largest share of its CPUs that a container of the load may use: clients that wait for a CPU measure that wait.
BUSIEST = 0.8
CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Share:
    """One container's part of a load, and the server's address there.

    With a `rate`, `events` are the transactions of this container. `begin` is the moment of the first one in seconds of
    the monotonic clock of its machine, which is `ahead` of this process's; 0 for at once.
    """

    service: Service
    host: str
    port: int
    clients: int
    seed: int
    rate: float = 0.0
    events: int = 0
    begin: float = 0.0
    ahead: float = 0.0


@dataclass(frozen=True)
class Printed:
    """What the clients of one container printed. `share` is theirs in a spread load, else None.

    `drift` is by how much the clock of its machine moved against this process's during the load, in seconds.
    """

    text: str
    share: Share | None = None
    drift: float = 0.0


@dataclass(frozen=True)
class CpuUse:
    """The CPU time that a container has used in seconds, and in how many periods its limit held it back."""

    seconds: float
    throttled: int


def containers(lab: Lab) -> list[Service]:
    """Return the containers that a load runs in: those that it is spread over, else the one beside the nodes."""
    return [lab.service(name) for name in sites_of_load(lab) or [LOAD]]


def beside(lab: Lab) -> list[str]:
    """Return the services of a load that are on the nodes' engine."""
    return [LOAD, *(name for name, site in sites_of_load(lab).items() if not site.endpoint)]


def sites_of_load(lab: Lab) -> dict[str, Site]:
    """Return the site of each container of a spread load by its service; empty for another load."""
    return {name: site for name, site in sites.of(lab.name).items() if name.startswith(f"{LOAD}-")}


def refuse_unconnected(lab: Lab) -> None:
    """Raise LabError if a container of a spread load does not reach the server that the load writes to.

    Places from which machines are read are started here, too: during a measurement a container that starts would be
    what others do to the machine.
    """
    for service in containers(lab) if sites_of_load(lab) else ():
        beside_nodes.on_machine(service.site)
        host, port = _address_for(lab, service)
        way = (f"--host={host}", f"--port={port}", f"--user={USER}", f"--connect-timeout={CONNECT_SECONDS}")
        with as_lab_error(
            LabError,
            f"{service.name} at {service.site or 'here'} does not reach {lab.written_host} at {host}:{port}",
            "a network, and a firewall, that let the clients there connect to the servers",
            "./lab doctor",
        ):
            service.run("mariadb", *way, "--execute=SELECT 1")


def put(lab: Lab, path: str, content: bytes, root: str = "") -> None:
    """Write a file into each container of the load, and into the one beside the nodes, which prepares it."""
    for name in dict.fromkeys([LOAD, *sites_of_load(lab)]):
        lab.service(name).put(path, content, root)


def run(  # noqa: PLR0913 - the load, and how it is shared
    lab: Lab,
    clients: int,
    seed: int,
    command: Callable[[Share], Sequence[str]],
    *,
    rate: float = 0,
    seconds: float = 0,
    defines: bool = False,
) -> tuple[list[Printed], list[Proof]]:
    """Run the clients, shared among all containers; return what each printed, and the proofs of a spread load.

    `command` gets a container's share. `seconds` are those of a load with a `rate`, in transactions a second. `defines`
    says that the load may also change tables.
    """
    used = containers(lab)
    with ExitStack() as noted:
        for each in used if defines else ():
            noted.enter_context(requests_made.noted(requests_made.DEFINES, each.name))
        if used[0].name == LOAD:
            share = Share(used[0], lab.written_host, SERVER_PORT, clients, seed, rate, planned(rate, seconds))
            return [Printed(used[0].run(*command(share)))], []
        groups = _groups(lab, used)
        before = _used(lab)
        shares = _shares(lab, used, clients, seed, rate, planned(rate, seconds))
        texts = at_once.of_each(lambda share: share.service.run(*command(share)), shares)
        took, after = clock.timer() - (shares[0].begin - shares[0].ahead), _used(lab)
    drifts = [beside_nodes.on_machine(each.service.site).ahead - each.ahead for each in shares]
    printed = [Printed(*each) for each in zip(texts, shares, drifts, strict=True)]
    return printed, [not_the_bottleneck(shares, before, after, groups, took)]


def _shares(lab: Lab, used: Sequence[Service], clients: int, seed: int, rate: float, events: int) -> list[Share]:
    """Return each container's share: as equal as can be, with a seed of its own.

    With a rate, the containers take turns, so that all transactions together begin at even times.
    """
    number_of, aheads = len(used), [beside_nodes.on_machine(each.site).ahead for each in used]
    begin, found = clock.timer() + START_SECONDS + SECONDS_A_CLIENT * clients, []
    for number, (service, ahead) in enumerate(zip(used, aheads, strict=True)):
        own, turn = clients // number_of + (number < clients % number_of), number / rate if rate else 0.0
        share = Share(service, *_address_for(lab, service), own, Random(f"{seed}:{number}").getrandbits(31))
        in_turn = len(range(number, events, number_of))
        found.append(replace(share, rate=rate / number_of, events=in_turn, begin=begin + turn + ahead, ahead=ahead))
    return found


def _address_for(lab: Lab, service: Service) -> tuple[str, int]:
    """Return the host and port at which clients in a container of the load reach the server that they write to."""
    there = sites_of_load(lab).get(service.name, Site())
    if not there.address:
        return lab.written_host, SERVER_PORT
    bound = lab.service(lab.written_host).bindings(SERVER_PORT)
    for each in bound:
        if each["HostIp"] == there.address:
            return there.address, int(each["HostPort"])
    raise LabError(
        f"{lab.written_host} of {lab.name} is not published on {there.address}",
        "a server that runs, with a port for the clients on other machines",
        f"./lab status --lab {lab.name}",
    )


def begun_together(moments: Sequence[Moments], shares: Sequence[Share], drifts: Sequence[float]) -> Proof:
    """Prove that the clients of all containers began when they were to; `moments` are on this process's clock.

    A clock that drifted during the load makes the beginning that much less certain.
    """
    whole = max(each.end for each in moments) - min(each.begin for each in moments)
    late = max(
        abs(moment.begin - (share.begin - share.ahead)) + abs(drift)
        for moment, share, drift in zip(moments, shares, drifts, strict=True)
    )
    ok = late <= LATE * max(whole, 1e-6)
    return Proof(
        what=f"the {len(moments)} containers of the load began when they were to",
        found=f"one began up to {late * 1000:.3g} ms from its time",
        ok=ok,
        expected=f"at most {LATE:.0%} of the load's time, {LATE * whole * 1000:.3g} ms",
        slow=not ok,
    )


def _used(lab: Lab) -> dict[str, CpuUse]:
    """Return what each running container of a lab has used."""
    lab.refresh()
    names = [name for name, container in lab.containers.items() if container.status == "running"]
    usages = at_once.of_each(lambda name: lab.service(name).usage(), names)
    return {
        name: CpuUse(seconds_of(usage), usage["cpu_stats"]["throttling_data"]["throttled_periods"])
        for name, usage in zip(names, usages, strict=True)
    }


@dataclass(frozen=True)
class CpuGroup:
    """The containers of a lab that share CPUs with one of the load, itself included, and the number of these CPUs."""

    services: tuple[str, ...]
    cpus: int


def _groups(lab: Lab, used: Sequence[Service]) -> list[CpuGroup]:
    """Return for each container of the load those that share its CPUs."""
    site_of = {name: lab.service(name).site for name in lab.containers}
    machines, found = reach.first_on_its_machine(set(site_of.values())), []
    for service in used:
        own = lab.pinned.get(service.name, "")
        there = [name for name, site in site_of.items() if machines[site] == machines[service.site]]
        shared = tuple(name for name in there if not own or lab.pinned.get(name, own) == own)
        found.append(CpuGroup(shared, len(own.split(",")) if own else machine.facts_at(service.site).cpus))
    return found


def not_the_bottleneck(
    shares: Sequence[Share],
    before: Mapping[str, CpuUse],
    after: Mapping[str, CpuUse],
    groups: Sequence[CpuGroup],
    took: float,
) -> Proof:
    """Prove that no container of the load was short of CPU time; the proof names the clients and the use of each.

    `before` and `after` are what each container of the lab had used, `took` the seconds between. A client uses at most
    one CPU at a time. What else of the lab runs on the same CPUs, such as a server, also takes them from the clients.
    """
    said, ok = [], True
    for share, group in zip(shares, groups, strict=True):
        name, used = share.service.name, {each: after[each].seconds - before[each].seconds for each in group.services}
        own = used[name] / max(took, 1e-3) / min(group.cpus, share.clients)
        shared = sum(used.values()) / max(took, 1e-3) / group.cpus
        waits = after[name].throttled - before[name].throttled
        # An engine that cannot count CPU time says zero.
        ok &= 0 < own and max(own, shared) <= BUSIEST and not waits
        limited = f", held back by a limit in {waits} periods" if waits else ""
        said.append(f"{name} with {share.clients} clients {own:.0%}, with all on its CPUs {shared:.0%}{limited}")
    return Proof(
        what="the load was not the bottleneck: the share of its CPUs that each of its containers used",
        found="; ".join(said),
        ok=ok,
        expected=f"more than 0 and at most {BUSIEST:.0%}, and no limit that holds it back",
    )
