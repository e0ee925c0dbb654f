"""The resource that is a node's bottleneck, decided from samples like those of top, iostat, iotop and dstat."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

# A resource in use for at least this share of the time counts as saturated.
SATURATED = 0.85
MOSTLY = 0.6
# The bound for a disk on which one thread waits all the time: the file system pauses between its requests.
HALF = 0.4


class Bottleneck(StrEnum):
    """The resources that a node may wait for."""

    LOCK = "lock"
    NETWORK = "network"
    CPU = "CPU"
    FSYNC = "fsync latency"
    DISK = "disk writes"
    READS = "disk reads"
    APPLIER = "applier thread"
    MEMBERSHIP = "cluster membership"
    FLOW_CONTROL = "flow control"
    ACKNOWLEDGEMENT = "acknowledgement by another node"
    NONE = "nothing"


class Thread(msgspec.Struct, frozen=True):
    """A server thread: share of one CPU, share of samples in which it waited for a disk, KiB written a second."""

    tid: int
    name: str
    cpu: float
    waits_for_disk: float
    written_kib: float


class DiskLoad(msgspec.Struct, frozen=True):
    """A disk: requests a second, shares of the time in which it was busy, and how long a request took in ms.

    `reading`, `writing` and `flushing` add up to `busy`; only emulated disks report them.
    """

    name: str
    reads: float
    writes: float
    flushes: float
    busy: float
    reading: float = 0.0
    writing: float = 0.0
    flushing: float = 0.0
    await_ms: float | None = None
    queue: float | None = None


class Applier(msgspec.Struct, frozen=True):
    """A replica's applier: its thread, the state that the server reports, and its backlog.

    `behind` means that received transactions were not applied, `starved` that transactions written on the source were
    not received; each at both the beginning and the end. `rate` is bytes of the source's log applied a second.
    `stopped` says in words that the applier does not run; it is empty while it runs.
    """

    tid: int | None
    state: str
    behind: bool
    starved: bool
    rate: float
    stopped: str = ""


class QueueLoad(msgspec.Struct, frozen=True):
    """What a member of a cluster has received and not applied, and how much of it sets flow control: transactions.

    `stops` counts the messages by which it paused the others, and `paused_s` the seconds for which it was paused, since
    its start or over a sample. A group counts neither without a component.
    """

    length: int
    limit: int
    stops: int | None = None
    paused_s: float = 0.0

    def since(self, before: "QueueLoad") -> "QueueLoad":
        """Return what was counted since then, and the shorter one of both lengths."""
        stops = None if self.stops is None else self.stops - (before.stops or 0)
        return QueueLoad(min(self.length, before.length), self.limit, stops, self.paused_s - before.paused_s)


class NodeSample(msgspec.Struct, frozen=True):
    """A node over some seconds.

    `cpu` is in CPUs of `cpus`; `throttled` is the share of periods in which the container's CPU limit acted.
    `lock_waiting` is the average number of transactions that waited for a row lock; `fsyncs` is the server's own count,
    a second. `pressure` is the kernel's: shares of the time in which some task waited, by resource. `waits` are for how
    many seconds a session has been in a state that waits, `queues` those of the cluster's members, and `hindrance` why
    the node serves no client.
    """

    node: str
    seconds: float
    cpus: float
    cpu: float
    throttled: float
    fsyncs: float
    lock_waiting: float
    received_kib: float
    sent_kib: float
    pressure: dict[str, float]
    threads: list[Thread]
    devices: list[DiskLoad]
    applier: Applier | None = None
    waits: dict[str, float] = {}
    queues: dict[str, QueueLoad] = {}
    hindrance: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """The bottleneck, the reason for it, and one line of evidence for each resource."""

    node: str
    bottleneck: Bottleneck
    because: str
    evidence: list[str]


def diagnose(sample: NodeSample) -> Diagnosis:
    """Return the first saturated resource in the order of causes.

    A thread that waits for a lock or the network uses neither CPU nor disk, and an applier that waits for its disk is
    not the bottleneck itself. Nor is the node whose queue sets flow control: it waits for a resource of its own.
    """
    found = next(_suspects(sample), (Bottleneck.NONE, "no resource was saturated"))
    return Diagnosis(sample.node, *found, evidence=list(_evidence(sample)))


def _suspects(sample: NodeSample) -> Iterator[tuple[Bottleneck, str]]:
    applier, setter = sample.applier, _sets_flow_control(sample)
    if sample.hindrance:
        yield Bottleneck.MEMBERSHIP, f"the node serves no client: {sample.hindrance}"
    if applier and applier.stopped:
        yield Bottleneck.APPLIER, applier.stopped
    yield from _waits(sample, sample.seconds)
    if setter and setter != sample.node:
        yield Bottleneck.FLOW_CONTROL, f"{_paused(sample)} set by {setter}; next: ./lab diagnose {setter}"
    if sample.lock_waiting >= MOSTLY:
        yield Bottleneck.LOCK, f"on average, {sample.lock_waiting:.1f} transactions waited for a row lock at any time"
    if applier and applier.behind and "lock" in applier.state.lower():
        yield Bottleneck.LOCK, f"the applier reports: {applier.state}"
    if applier and applier.starved and not applier.behind:
        yield (
            Bottleneck.NETWORK,
            f"all received changes are applied, and the source has more; {sample.received_kib:.0f} KiB/s arrive",
        )
    if sample.throttled >= MOSTLY:
        yield Bottleneck.CPU, f"the container's CPU limit throttled it in {sample.throttled:.0%} of the periods"
    if sample.cpu >= SATURATED * sample.cpus:
        yield Bottleneck.CPU, f"{sample.cpu:.2f} of {sample.cpus:g} CPUs in use"
    yield from _devices(sample)
    if applier and applier.behind:
        mine = next((thread for thread in sample.threads if thread.tid == applier.tid), None)
        busy = f", its thread used {mine.cpu:.0%} of a CPU" if mine else ""
        why = f"it always had more to apply; no disk, lock or CPU limit slowed it{busy}; it has one thread"
        yield Bottleneck.APPLIER, why
    yield from _waits(sample, 0)
    if setter:
        yield Bottleneck.FLOW_CONTROL, f"{_paused(sample)} set by this node, which applies more slowly than the others"
    elif _share_paused(sample) >= HALF:
        yield Bottleneck.FLOW_CONTROL, f"{_paused(sample)} set by no node alone"


def _waits(sample: NodeSample, least_s: float) -> Iterator[tuple[Bottleneck, str]]:
    """Yield what sessions wait for, and have waited for during at least `least_s` seconds."""
    for state, seconds in sample.waits.items():
        if seconds >= least_s:
            found = Bottleneck.LOCK if "lock" in state.lower() else Bottleneck.ACKNOWLEDGEMENT
            yield found, f"a session has been in this state for {seconds:.0f} s: {state}"


def _share_paused(sample: NodeSample) -> float:
    return max((queue.paused_s for queue in sample.queues.values()), default=0) / sample.seconds


def _sets_flow_control(sample: NodeSample) -> str:
    """Return the member whose receive queue alone makes the cluster wait; empty if there is none.

    Galera's nodes count the pauses that they ask for. In a group the member has a longer queue than the limit.
    """
    stops = {name: queue.stops for name, queue in sample.queues.items() if queue.stops is not None}
    if stops:
        slow = [name for name, sent in stops.items() if sent > SATURATED * sum(stops.values())]
        return slow[0] if slow and _share_paused(sample) >= HALF else ""
    full = [name for name, queue in sample.queues.items() if queue.length > queue.limit]
    return full[0] if len(full) == 1 else ""


def _paused(sample: NodeSample) -> str:
    share = _share_paused(sample)
    return f"commits waited for it {share:.0%} of the time," if share else "a receive queue is above its limit,"


def _devices(sample: NodeSample) -> Iterator[tuple[Bottleneck, str]]:
    """Yield each disk that is busy all the time, or for which a thread waits all the time.

    A single thread that flushes leaves the disk idle between its requests, so the lower bound applies to it.
    """
    waited = _waited_for_disk(sample)
    for device in sorted(sample.devices, key=lambda each: -each.busy):
        if device.busy < (HALF if waited >= SATURATED else SATURATED):
            return
        worst = _most_of(device)
        said = f"threads of the server waited for a disk in {waited:.0%} of the samples"
        yield worst, f"{device.name} was busy {device.busy:.0%} of the time, {_doing(device)}; {said}"


def _most_of(device: DiskLoad) -> Bottleneck:
    """Return the kind of request that kept a disk busy longest; if it reports no shares, the most frequent kind."""
    if device.reading or device.writing or device.flushing:
        shares = {
            Bottleneck.FSYNC: device.flushing,
            Bottleneck.DISK: device.writing,
            Bottleneck.READS: device.reading,
        }
        return max(shares, key=lambda each: shares[each])
    return Bottleneck.DISK if device.writes >= device.reads else Bottleneck.READS


def _waited_for_disk(sample: NodeSample) -> float:
    """Return the share of samples with a thread waiting for the disk.

    That is the applier's share if the applier has work; else the sum over all threads, at most 1.
    """
    if sample.applier and sample.applier.behind:
        mine = [thread.waits_for_disk for thread in sample.threads if thread.tid == sample.applier.tid]
        if mine:
            return mine[0]
    return min(sum(thread.waits_for_disk for thread in sample.threads), 1.0)


def _doing(device: DiskLoad) -> str:
    if not (device.reading or device.writing or device.flushing):
        return f"{device.writes:.0f} writes/s and {device.reads:.0f} reads/s"
    return (
        f"{device.flushing:.0%} flushing ({device.flushes:.0f}/s), {device.writing:.0%} writing "
        f"({device.writes:.0f}/s), {device.reading:.0%} reading ({device.reads:.0f}/s)"
    )


def _evidence(sample: NodeSample) -> Iterator[str]:
    """Yield one line for each tool that an administrator would use."""
    yield f"CPU        {sample.cpu:.2f} of {sample.cpus:g}, throttled in {sample.throttled:.0%} of the periods"
    if sample.pressure:
        said = ", ".join(f"{name} {share:.0%}" for name, share in sample.pressure.items())
        yield f"pressure   share of time in which some task of the machine waited: {said}"
    for device in sorted(sample.devices, key=lambda each: each.name):
        waits = "" if device.await_ms is None else f", {device.await_ms:.1f} ms per request"
        queue = "" if device.queue is None else f", queue {device.queue:.1f}"
        yield f"disk       {device.name}: busy {device.busy:.0%}, {_doing(device)}{waits}{queue}"
    for thread in sorted(sample.threads, key=lambda each: -(each.cpu + each.waits_for_disk))[:3]:
        own = " (the applier)" if sample.applier and thread.tid == sample.applier.tid else ""
        yield (
            f"thread     {thread.name}{own}: {thread.cpu:.0%} of a CPU, waited for a disk in "
            f"{thread.waits_for_disk:.0%} of the samples, wrote {thread.written_kib:.0f} KiB/s"
        )
    yield f"server     {sample.fsyncs:.0f} fsyncs/s, {sample.lock_waiting:.1f} transactions waiting for a row"
    yield f"network    {sample.received_kib:.0f} KiB/s in, {sample.sent_kib:.0f} KiB/s out"
    if sample.applier:
        state = "behind" if sample.applier.behind else "starved" if sample.applier.starved else "level"
        yield f"applier    {state}, {sample.applier.rate / 1024:.0f} KiB of log/s: {sample.applier.state}"
    for name, load in sample.queues.items():
        paused = f", paused {load.paused_s / sample.seconds:.0%} of the time, sent {load.stops} stops"
        counted = "" if load.stops is None else paused
        yield f"queue      {name}: {load.length} received and not applied, limit {load.limit}{counted}"
