"""How often each limit of noise was exceeded where no other program ran: a table from all kept records."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from replication_lab.model.core.noise import Noise
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.record.measurement import Measurement
from replication_lab.probes.noise import A_SECOND, ALL_THE_TIME
from replication_lab.runner.session import SLOWER
from replication_lab.world import journal

from tests.bench.quiet import Quiet
from tests.kept_table import table
from tests.records import golden

QUIET = golden.HERE / "quiet.json"
# Of a limit that was exceeded, programs follow by name; these are the engine's and the lab's own.
NAMED = re.compile(r"([\w.-]+) \d+% of a CPU|([\w.-]+) \d+ MiB/s")
OWN = re.compile(r"docker.*|containerd.*|runc.*|mysqld|mariadbd|kworker.*")
# What the noise guard says, in its words and in the table's, and the fields of a noise: of all the time, of a second.
USED = (
    ("other programs used {} of the CPUs", "the CPUs", "foreign", "foreign_cpu", "foreign_cpu_of_a_second"),
    ("{} of the CPU time was stolen", "stolen CPU time", "steal", "steal", ""),
    ("other programs used {} of a disk", "a disk", "disk", "foreign_disk", ""),
    ("tasks waited for memory", "memory", "memory", "memory_stalled", ""),
)


def noise_limits() -> str:
    """Return how often each limit was exceeded, and by how much, in kept measurements and on a quiet machine."""
    quiet, found, rows = msgspec.json.decode(QUIET.read_bytes(), type=Quiet), list(_without_others()), []
    for said, words, limit, whole, second in USED:
        for when, spans, limits, field in (
            ("all the time", quiet.parts, ALL_THE_TIME, whole),
            ("in a second", quiet.seconds, A_SECOND, second),
        ):
            bound = getattr(limits, limit)
            told = [share > bound for each in found if field and (share := getattr(each, field)) is not None]
            own = next(alarms for what, alarms in spans.items() if what.startswith(said))
            kept, highest = _of(told), f"{own.highest:.0%}"
            rows.append((f"{words}, {when}", f"{bound:.0%}", kept, f"{own.beyond} of {own.judged}", highest))
    slower = ["slower than usual" in each.why for each in found if each.loop_us is not None]
    rows.append(("CPUs that are slower than usual", f"{SLOWER:.0%}", _of(slower), "–", "–"))
    head = ("limit on", "limit", "kept measurements beyond it", "spans of a quiet machine beyond it", "the most there")
    return table(head, rows)


def _of(told: list[bool]) -> str:
    return f"{sum(told)} of {len(told)}" if told else "not recorded"


@cache
def _every() -> tuple[Noise, ...]:
    """Return the noise of all kept measurements, and of all parts of kept drills."""
    found: list[Noise] = []
    for name in golden.names():
        with TemporaryDirectory() as folder:
            for event in journal.read(str(golden.unpack(name, Path(folder))))[1].events:
                found += [event.noise] if isinstance(event, Measurement) else []
                found += [each.noise for each in event.noise] if isinstance(event, Evidence) else []
    return tuple(found)


def _without_others() -> Iterator[Noise]:
    """Yield those during which no other program was named: the machine was as quiet as its user could make it."""
    for each in _every():
        others = [name for found in NAMED.findall(each.why) for name in found if name and not OWN.fullmatch(name)]
        if each.readable and not others:
            yield each
