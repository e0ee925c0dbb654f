"""The resources that a node's server, disks and network used for some seconds: the input of probes/bottleneck.py."""

import re
from dataclasses import dataclass
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.probes.bottleneck import Applier, DiskLoad, NodeSample, Thread
from replication_lab.probes.disk_activity import work_of_disk
from replication_lab.world import clock, host
from replication_lab.world.disks import array as arrays
from replication_lab.world.disks.spindle import Settings, Stats
from replication_lab.world.docker import reach
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Progress, Replica
from replication_lab.world.mysql.server import Server

# The bytes written by each thread of the server; the state of all threads every tenth of a second; the bytes again.
IO = 'for io in /proc/$pid/task/*/io; do echo "$io $(grep ^write_bytes "$io" 2>/dev/null)"; done; echo --; '
LOOKS = (
    "pid=$(pidof mariadbd mysqld || echo 1); "
    f"{IO}"
    "now() { read -r up _ </proc/uptime; now=${up%.*}${up#*.}; }; now; end=$((now + $1)); "
    'while [ "$now" -lt "$end" ]; do cat /proc/$pid/task/*/stat 2>/dev/null; echo --; sleep 0.1; now; done; '
    f"{IO}"
)
# /proc/uptime counts hundredths of a second. A share of CPU time needs two samples, which take 0.1 s each.
UPTIME_UNITS, SHORTEST = 100, 0.3
FSYNCS, LOCK_TIME_MS, LOCK_WAITS = "Innodb_data_fsyncs", "Innodb_row_lock_time", "Innodb_row_lock_current_waits"
TICKS_A_SECOND = 100
STATE, USER_TICKS, SYSTEM_TICKS = 0, 11, 12
WAITS_FOR_DISK = "D"
# In the states of sessions that wait for a lock of the server, for a replica, or for the order of Galera's group. Row
# locks are counted elsewhere.
WAITED_FOR = re.compile(r"^Waiting for (.*\block\b|semi-sync ACK|certification)", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """All counters at one moment."""

    at: float
    usage: dict[str, Any]
    disks: dict[str, tuple[Settings, Stats]]
    host_disk: dict[str, int]
    status: dict[str, int]
    progress: Progress | None
    starved: bool
    waits: dict[str, float]


def sample(lab: Lab, node: str, seconds: float) -> NodeSample:
    """Return a node's resources over some seconds; LabError when it does not run or is no node."""
    lab.topology.node(node)
    if lab.node(node).state()[0] != "running":
        raise LabError(f"{node} of {lab.name} is not running", "a running server", f"./lab status --lab {lab.name}")
    before = _read(lab, node)
    looks, written = _look(lab, node, round(max(seconds, SHORTEST) * UPTIME_UNITS))
    after = _read(lab, node)
    took, used, was = after.at - before.at, after.usage, before.usage
    status = {name: after.status[name] - count for name, count in before.status.items()}
    waiting = min(before.status[LOCK_WAITS], after.status[LOCK_WAITS])
    return NodeSample(
        node=node,
        seconds=round(took, 2),
        cpus=_cpus(lab, node, used),
        cpu=(_cpu_ns(used) - _cpu_ns(was)) / 1e9 / took,
        throttled=_throttled(was, used),
        fsyncs=status[FSYNCS] / took,
        lock_waiting=max(status[LOCK_TIME_MS] / 1000 / took, waiting),
        received_kib=(_network(used, "rx_bytes") - _network(was, "rx_bytes")) / 1024 / took,
        sent_kib=(_network(used, "tx_bytes") - _network(was, "tx_bytes")) / 1024 / took,
        pressure=host.pressures(reach.machine_files(host.PRESSURES)),
        threads=_threads(looks, written, took),
        devices=_devices(before, after, took),
        applier=_applier(before, after),
        waits={state: since for state, since in after.waits.items() if state in before.waits},
    )


def _read(lab: Lab, node: str) -> Reading:
    server = lab.node(node).server()
    array = arrays.arrays(lab).get(node)
    progress = Replica(server).progress()
    # A replica follows the log of its link's other end.
    source = next((link.source for link in lab.topology.links if link.target == node), node)
    ahead = BinaryLog(lab.node(source).server()).end() if progress else None
    status = server.counters(FSYNCS, LOCK_TIME_MS, LOCK_WAITS)
    return Reading(
        at=clock.timer(),
        usage=lab.node(node).usage(),
        disks={name: (one.settings(), one.stats()) for name, one in array.disks.items()} if array else {},
        host_disk={} if array else host.disk_of(lab.node(node).data_device(), reach.machine_files(host.DISKS)),
        status=status,
        progress=progress,
        starved=bool(progress and ahead and progress.received < ahead),
        waits=_waits(server),
    )


def _waits(server: Server) -> dict[str, float]:
    """Return for how many seconds a client's session has been in a state that waits, by the state (the longest)."""
    rows = sorted(server.rows("SHOW PROCESSLIST"), key=lambda row: row["Time"] or 0)
    of_clients = (row for row in rows if row["User"] != "system user")
    return {row["State"]: float(row["Time"] or 0) for row in of_clients if WAITED_FOR.search(row["State"] or "")}


def _look(lab: Lab, node: str, hundredths: int) -> tuple[list[dict[int, list[str]]], dict[int, int]]:
    """Return the fields of every thread's stat in each sample, and the bytes that each thread wrote, by tid."""
    array = arrays.arrays(lab).get(node)
    said = lab.node(node).run(*(array.inside if array else ()), "sh", "-c", LOOKS, "look", str(hundredths))
    first, *looks, last, _ = said.split("--\n")
    then, now = _written(first), _written(last)
    return [dict(map(_stat, look.splitlines())) for look in looks], {tid: now[tid] - then.get(tid, 0) for tid in now}


def _written(text: str) -> dict[int, int]:
    lines = (line.split() for line in text.splitlines())
    return {int(words[0].split("/")[4]): int(words[-1]) for words in lines if words[1:]}


def _stat(line: str) -> tuple[int, list[str]]:
    """Return a thread's number, and its fields from its state on, with its name at the end; proc(5), /proc/pid/stat."""
    head, _, rest = line.rpartition(") ")
    tid, _, name = head.partition(" (")
    return int(tid), [*rest.split(), name]


def _applier(before: Reading, after: Reading) -> Applier | None:
    then, now = before.progress, after.progress
    if now is None:
        return None
    (file, applied), (file_before, applied_before) = now.applied, then.applied if then else ("", 0)
    # Across a change of files, only the bytes of the last file.
    done = applied - applied_before if file == file_before else applied
    return Applier(
        tid=now.tid,
        state=now.state,
        behind=bool(then and then.behind and now.behind),
        starved=before.starved and after.starved,
        rate=done / (after.at - before.at),
        stopped=now.stopped,
    )


def _cpus(lab: Lab, node: str, usage: dict[str, Any]) -> float:
    """Return the number of CPUs that the container may use: of its set, or all."""
    chosen = lab.node(node).container.attrs["HostConfig"].get("CpusetCpus") or ""
    if chosen:
        ends = [part.split("-") for part in chosen.split(",")]
        return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)
    return usage["cpu_stats"].get("online_cpus") or 1


def _cpu_ns(usage: dict[str, Any]) -> int:
    return usage["cpu_stats"]["cpu_usage"]["total_usage"]


def _throttled(was: dict[str, Any], used: dict[str, Any]) -> float:
    now, then = (usage["cpu_stats"].get("throttling_data", {}) for usage in (used, was))
    periods, held = (now.get(name, 0) - then.get(name, 0) for name in ("periods", "throttled_periods"))
    return held / periods if periods else 0.0


def _network(usage: dict[str, Any], name: str) -> int:
    """Return the bytes of the container's networks; zero where a sidecar holds the network."""
    return sum(each[name] for each in usage.get("networks", {}).values())


def _threads(looks: list[dict[int, list[str]]], written: dict[int, int], seconds: float) -> list[Thread]:
    """Return the threads that existed all the time."""
    first, last, found = looks[0], looks[-1], []
    for tid in first.keys() & last.keys():
        cpu = (_ticks(last[tid]) - _ticks(first[tid])) / TICKS_A_SECOND / seconds
        waits = sum(look[tid][STATE] == WAITS_FOR_DISK for look in looks if tid in look) / len(looks)
        written_kib = written.get(tid, 0) / 1024 / seconds
        found.append(Thread(tid, last[tid][-1], round(cpu, 3), round(waits, 3), round(written_kib, 1)))
    return found


def _ticks(fields: list[str]) -> int:
    return int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])


def _devices(before: Reading, after: Reading, seconds: float) -> list[DiskLoad]:
    if after.disks:
        return [_spindle(name, before.disks[name], after.disks[name]) for name in after.disks]
    return [_host_disk(before.host_disk, after.host_disk, seconds)] if after.host_disk else []


def _spindle(name: str, before: tuple[Settings, Stats], after: tuple[Settings, Stats]) -> DiskLoad:
    """Return an emulated disk's work: flushes and reads take their configured times, the rest was writing."""
    (_, then), (settings, now) = before, after
    work = work_of_disk(then, now)
    busy = min(work.busy, 1.0)
    flushing = min(work.flushes_per_second * settings.flush_us / 1e6, busy)
    reading = min(work.reads_per_second * settings.read_us / 1e6, busy - flushing)
    return DiskLoad(
        name=name,
        reads=work.reads_per_second,
        writes=work.writes_per_second,
        flushes=work.flushes_per_second,
        busy=busy,
        reading=reading,
        writing=busy - flushing - reading,
        flushing=flushing,
    )


def _host_disk(before: dict[str, int], after: dict[str, int], seconds: float) -> DiskLoad:
    """Return the host's disk as iostat shows it, with the requests of all processes on the host."""
    grown = {name: after[name] - before[name] for name in ("reads", "writes", "flushes", "busy_ms", "waited_ms")}
    requests = grown["reads"] + grown["writes"]
    return DiskLoad(
        name=f"{after['name']} (disk of the host)",
        reads=grown["reads"] / seconds,
        writes=grown["writes"] / seconds,
        flushes=grown["flushes"] / seconds,
        busy=min(grown["busy_ms"] / 1000 / seconds, 1.0),
        await_ms=grown["waited_ms"] / requests if requests else 0.0,
        queue=grown["waited_ms"] / 1000 / seconds,
    )
