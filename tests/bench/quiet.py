"""How often a quiet machine exceeds the limits of noise: `python -m tests.bench.quiet`, where nothing else runs.

A lab is idle, loaded, and loses and starts its containers, which is what measurements and drills do. Each of its
seconds is judged as the noise guard does, and each part of PART_SECONDS like a whole measurement. Whatever exceeds a
limit then is a false alarm: no other program was there.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import msgspec
from replication_lab.cli.console import tell
from replication_lab.lab import up
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.probes import noise
from replication_lab.probes.used import Reader, Used, UsedSince
from replication_lab.workloads.inserts import Inserts
from replication_lab.world import catalogue, clock, files
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import leftovers, project
from replication_lab.world.docker.lab import Lab

SECONDS, PART_SECONDS = 60, 4
NAME = f"quiet-{os.getpid()}"


class Alarms(msgspec.Struct, frozen=True):
    """How many spans were judged by a limit, how many exceeded it, and the largest share of them."""

    limit: float
    judged: int
    beyond: int
    highest: float


class Quiet(msgspec.Struct, frozen=True):
    """The alarms of a second and of a part, by what others were said to use."""

    day: str
    seconds: dict[str, Alarms]
    parts: dict[str, Alarms]


def _idle(_lab: Lab) -> None:
    clock.pause(SECONDS)


def _loaded(lab: Lab) -> None:
    load = Inserts(clients=16, seconds=SECONDS // 4)
    load.prepare(lab)
    for _ in range(4):
        load.run(lab, 7)


def _ending(lab: Lab) -> None:
    """Kill and start a node again and again, as the drills do."""
    replica, began = lab.node("replica"), clock.timer()
    while clock.timer() < began + SECONDS:
        replica.container.kill()
        clock.pause(2)
        replica.container.start()
        clock.pause(4)


DONE: tuple[Callable[[Lab], None], ...] = (_idle, _loaded, _ending)


def measured() -> Quiet:
    """Do all of it, and judge."""
    lab = project.start(LabRequest(catalogue.topology("async"), "mariadb", NAME, load=True, keep=False))
    second: dict[str, list[tuple[float, float]]] = defaultdict(list)
    part: dict[str, list[tuple[float, float]]] = defaultdict(list)
    try:
        for act in DONE:
            tell(f"{act.__name__.strip('_')}, {SECONDS} s")
            readings = list(_readings(lab, act))
            for seconds, limits, found in (
                (noise.SECOND, noise.A_SECOND, second),
                (PART_SECONDS, noise.ALL_THE_TIME, part),
            ):
                for span in _spans(readings, seconds):
                    for what, share, limit in noise._shares(span, limits):
                        found[what].append((share, limit))
    finally:
        leftovers.remove(NAME)
    return Quiet(f"{datetime.now():%Y-%m-%d}", _alarms(second), _alarms(part))


def _readings(lab: Lab, act: Callable[[Lab], None]) -> Iterator[Used]:
    """Yield what was used until each moment while something is done."""
    reader = Reader([lab])
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(act, lab)
        while not doing.done():
            yield reader.read()
            clock.pause(noise.EVERY)
        doing.result()


def _spans(readings: list[Used], seconds: float) -> Iterator[UsedSince]:
    """Yield each span of at least so many seconds that begins with a reading; those of a second overlap by half."""
    step = 1 if seconds < PART_SECONDS else round(seconds / noise.EVERY)
    for number in range(0, len(readings), step):
        later = (each for each in readings[number + 1 :] if each.at - readings[number].at >= seconds)
        if end := next(later, None):
            yield UsedSince(readings[number], end)


def _alarms(found: dict[str, list[tuple[float, float]]]) -> dict[str, Alarms]:
    return {
        what: Alarms(each[0][1], len(each), sum(share > limit for share, limit in each), round(max(each)[0], 3))
        for what, each in found.items()
    }


if __name__ == "__main__":
    docker_engine.ensure()
    up.tidy(tell)
    path = catalogue.RUNS / f"{datetime.now():%Y%m%d-%H%M%S}-quiet.json"
    files.write_whole(path, msgspec.json.format(msgspec.json.encode(measured())))
    tell(f"written to {path.relative_to(catalogue.ROOT)}; for docs/statistics.md: cp it to tests/records/quiet.json")
