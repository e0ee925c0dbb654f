"""How often each limit of noise was exceeded where no other program ran: a table from all kept records."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from replication_lab.model.core.noise import Noise
from replication_lab.model.drill.evidence import Evidence
from replication_lab.model.record.measurement import Measurement
from replication_lab.probes.noise import A_SECOND, ALL_THE_TIME
from replication_lab.runner.session import SLOWER
from replication_lab.world import journal

from tests.kept_table import table
from tests.records import golden

# Of a limit that was exceeded, programs follow by name; these are the engine's and the lab's own.
NAMED = re.compile(r"([\w.-]+) \d+% of a CPU|([\w.-]+) \d+ MiB/s")
OWN = re.compile(r"docker.*|containerd.*|runc.*|mysqld|mariadbd|kworker.*")
# What others used, in words, the limit on it all the time and in a second, and the field of a noise that tells it.
USED = (
    ("the CPUs, all the time", ALL_THE_TIME.foreign, "foreign_cpu"),
    ("the CPUs, in a second", A_SECOND.foreign, "foreign_cpu_of_a_second"),
    ("stolen CPU time, all the time", ALL_THE_TIME.steal, "steal"),
    ("a disk, all the time", ALL_THE_TIME.disk, "foreign_disk"),
    ("memory, all the time", ALL_THE_TIME.memory, "memory_stalled"),
)


def noise_limits() -> str:
    """Return how often each limit was exceeded in kept measurements without another program, and the largest share."""
    found, rows = list(_without_others()), []
    for words, limit, field in USED:
        shares = [share for each in found if (share := getattr(each, field)) is not None]
        rows.append((words, limit, [share > limit for share in shares], f"{max(shares):.0%}"))
    slower = ["slower than usual" in each.why for each in found if each.loop_us is not None]
    rows.append(("CPUs that are slower than usual", SLOWER, slower, "–"))
    head = ("limit on", "limit", "measurements beyond it", "share of them", "the most")
    return table(
        head,
        [
            (words, f"{limit:.0%}", f"{sum(beyond)} of {len(beyond)}", f"{sum(beyond) / len(beyond):.1%}", most)
            for words, limit, beyond, most in rows
        ],
    )


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
