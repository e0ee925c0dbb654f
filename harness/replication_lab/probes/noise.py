"""Noise: what others use of the machine while a load runs, by whom, in all and in the worst second."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.progress import Tell
from replication_lab.probes.used import Reader, Used, UsedSince
from replication_lab.world import clock
from replication_lab.world.docker import machine, reach
from replication_lab.world.docker.containers import engine_of
from replication_lab.world.docker.lab import Lab
from replication_lab.world.processes import busiest


@dataclass(frozen=True)
class NoiseLimits:
    """The largest shares that others may use: of the CPUs, of a disk's time, of the time waited for memory.

    `steal` is the share of the CPUs' time that other virtual machines may take.
    """

    foreign: float
    steal: float
    disk: float
    memory: float


# The engine, its shims and the kernel's own work for the lab count as foreign too: measured at 2-9 % of two cores
# under full load. A quarter means another program. The same limit holds for the CPUs that nodes are pinned to: on two
# CPUs a quarter of both can be half of the one that a source has. Stolen time above a twentieth has bent every timing
# seen here.
#
# In a second that begins or ends containers the engine itself uses more: at most 15 % of two cores in those of the kept
# drills that killed three nodes, and 23 % in the shortest loads. A program that keeps one of two CPUs busy for a second
# uses 37 % at least of one of the seconds that are judged, which begin twice a second.
ALL_THE_TIME = NoiseLimits(foreign=0.25, steal=0.05, disk=0.25, memory=0.05)
A_SECOND = NoiseLimits(foreign=0.35, steal=0.25, disk=0.5, memory=0.25)
# The machine is read so often, and each second of a load is judged, in seconds.
EVERY, SECOND = 0.5, 0.95
# A longer gap between two readings may hide anything.
LONGEST_GAP = 3.0
# A process is named if it used this share of one CPU, or moved so many bytes a second.
NAMED, NAMED_BYTES = 0.05, 1 << 20
# A machine is quiet again after so many quiet windows of this length, in seconds.
WINDOW, QUIET_WINDOWS = 1.0, 3


class NoiseMeter:
    """Reads the machine twice a second from its making until `close`, for the noise since the last `restart`.

    `clients_here` says that clients run in this process, wherever those of the labs usually do. It reads the machine of
    the command's engine and those of other sites, or only that of `site`; `apart` are all sites on other machines.
    """

    def __init__(
        self, labs: Iterable[Lab], clients_here: bool = False, site: str = "", apart: Sequence[str] = ()
    ) -> None:
        self._done, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._sample, name="noise", daemon=True)
        self._worst: tuple[float, UsedSince] | None = None
        labs = tuple(labs)
        self._elsewhere: dict[str, NoiseMeter] = {}
        self._unread, self._unreadable = "", _why_hidden(labs, clients_here)
        if self._unreadable:
            return
        apart = apart or _sites_apart(labs)
        if not site:
            self._elsewhere = {each: NoiseMeter(labs, clients_here, each, apart) for each in apart}
        self._reader = Reader(labs, site, apart)
        try:
            self._began = self._reader.read()
        except LabError as error:
            self._unreadable = f"the load of the Docker engine's machine cannot be read: {error.found}"
            return
        self._recent = deque([self._began])
        self._thread.start()

    def restart(self) -> None:
        """Begin again now: what was used before is none of the next reading."""
        for each in self._elsewhere.values():
            each.restart()
        if not self._unreadable:
            with self._lock:
                self._take()
                self._began = self._recent[-1]
                self._recent, self._worst, self._unread = deque([self._began]), None, ""

    def read(self) -> Noise:
        """Return the shares since the start; quiet unless a limit was exceeded, in all or in a second.

        They are those of the command's engine, but `quiet` and `readable` also tell of the machines of other sites.
        """
        found = self._read()
        for site, meter in self._elsewhere.items():
            there = meter.read()
            if found.quiet and not there.quiet:
                why = f"at {site}: {there.why}"
                found = msgspec.structs.replace(found, quiet=False, readable=there.readable, why=why)
        return found

    def _read(self) -> Noise:
        if self._unreadable:
            return Noise(quiet=False, readable=False, why=self._unreadable)
        with self._lock:
            self._take()
            found = UsedSince(self._began, self._recent[-1])
            worst = self._worst[1] if self._worst else found
            when = f" for a second, {max(worst.before.at - self._began.at, 0):.1f} s after the beginning"
            why = self._unread or _why(found, ALL_THE_TIME) or _why(worst, A_SECOND, when)
        return Noise(
            foreign_cpu=round(found.foreign, 4),
            own_cpu=round(found.own, 4),
            steal=round(found.steal, 4),
            foreign_cpu_of_a_second=round(worst.foreign, 4),
            foreign_disk=round(found.disk, 4),
            memory_stalled=round(found.memory, 4),
            psi_cpu_some=found.now.cpu_pressure,
            load1=round(found.now.load1, 2),
            quiet=not why,
            why=why,
        )

    def close(self) -> None:
        """Stop reading."""
        for each in self._elsewhere.values():
            each.close()
        self._done.set()
        if self._thread.ident:
            self._thread.join()

    def _sample(self) -> None:
        while not self._done.is_set():
            clock.pause(EVERY, unless=self._done)
            with self._lock:
                self._take()

    def _take(self) -> None:
        """Read the machine. If that fails for longer than LONGEST_GAP, the noise is not known."""
        try:
            self._add(self._reader.read())
        except LabError as error:
            if clock.timer() - self._recent[-1].at > LONGEST_GAP:
                self._unread = f"the load of the machine was not read: {error.found}"

    def _add(self, now: Used) -> None:
        """Remember the counters, and the second that ends now if no other one was as far beyond its limits."""
        if (gap := now.at - self._recent[-1].at) > LONGEST_GAP:
            self._unread = f"the load of the machine was not read for {gap:.1f} s"
        self._recent.append(now)
        while now.at - self._recent[1].at >= SECOND:
            self._recent.popleft()
        second = UsedSince(self._recent[0], now)
        excess = max(used / limit for _, used, limit in _shares(second, A_SECOND))
        if second.seconds >= SECOND and (self._worst is None or excess > self._worst[0]):
            self._worst = excess, second


def _sites_apart(labs: Iterable[Lab]) -> list[str]:
    """Return the endpoints of the labs' sites whose engines run on other machines than the command's."""
    found = {engine_of(one).site for lab in labs for one in lab.all_containers.every.values()} - {""}
    return sorted(site for site in found if reach.is_another_machine(site))


def _why_hidden(labs: Iterable[Lab], clients_here: bool = False) -> str:
    """Return why readings of the machine do not tell all that lengthens a commit; empty if they do."""
    elsewhere = machine.facts().elsewhere
    if not elsewhere or not (clients_here or any(not lab.clients_are_beside for lab in labs)):
        return ""
    return f"{elsewhere}, and clients run on this machine: the way there takes part of each commit's time"


def wait_for_quiet(labs: Iterable[Lab], seconds: float, tell: Tell, site: str = "") -> bool:
    """Wait until the machine is quiet while no load runs, at most this long; return whether it is.

    It is that of the command's engine, or of a site on another machine.

    Return False at once if its load cannot be read.
    """
    labs, quiet, told = tuple(labs), 0, False
    if _why_hidden(labs):
        return False
    reader, until = Reader(labs, site, [site] if site else ()), clock.timer() + seconds + WINDOW
    with suppress(LabError):
        before = reader.read()
        while clock.timer() < until:
            clock.pause(WINDOW)
            now = reader.read()
            why, before = _why(UsedSince(before, now), ALL_THE_TIME), now
            quiet = 0 if why else quiet + 1
            if quiet >= QUIET_WINDOWS:
                return True
            if why and not told:
                told = True
                tell(f"  waiting for a quiet machine, at most {seconds:.0f} s: {why}")
    return False


def _shares(found: UsedSince, limits: NoiseLimits) -> Iterator[tuple[str, float, float]]:
    """Yield what others used in words, with "{}" for its share, the share, and its limit."""
    yield "other programs used {} of the CPUs", found.foreign, limits.foreign
    for cpus, share in found.foreign_of_pinned.items():
        what = f"CPU{'s' if ',' in cpus else ''} {cpus}, to which nodes are pinned"
        yield f"other programs used {{}} of {what}", share, limits.foreign
    yield "{} of the CPU time was stolen by other virtual machines", found.steal, limits.steal
    yield "other programs used {} of a disk's time", found.disk, limits.disk
    yield "tasks waited for memory in {} of the time", found.memory, limits.memory


def _why(found: UsedSince, limits: NoiseLimits, when: str = "") -> str:
    """Return the first limit that was exceeded, and by whom; empty if none was."""
    for text, share, limit in _shares(found, limits):
        if share > limit:
            return f"{text.format(f'{share:.0%}')}{when} (limit {limit:.0%}){_by_whom(text, found)}"
    return ""


def _by_whom(text: str, found: UsedSince) -> str:
    """Return the names of the processes that used most, with how much; empty if none stands out."""
    if "disk" in text:
        rates = busiest((name, moved / found.seconds) for name, moved in found.foreign_disk_bytes())
        named = [f"{name} {rate / (1 << 20):.0f} MiB/s" for name, rate in rates if rate >= NAMED_BYTES]
    elif "other programs" in text:
        rates = busiest((name, used / found.seconds) for name, used in found.foreign_cpu_seconds())
        named = [f"{name} {share:.0%} of a CPU" for name, share in rates if share >= NAMED]
    else:
        named = []
    return f": {', '.join(named)}" if named else ""
