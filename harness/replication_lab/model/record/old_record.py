"""Lines that older versions wrote, as current events: records of experiments of schema 1, of drills up to 4."""

from typing import Any

import msgspec

from replication_lab.model.core.event import CRASHED, INTERRUPTED, End, Event, LabCameUp
from replication_lab.model.drill.drill import Drill, with_settings_apart
from replication_lab.model.drill.evidence import DrillsOpening, Evidence


class Opened(msgspec.Struct, tag_field="event", tag="opened"):
    """The first line of drill.jsonl, which held what came up as well: the lab was started before the record."""

    topology: str
    engine: str
    version: str
    seed: int
    drills: list[Drill]
    started: str
    environment: dict[str, Any] = {}
    images: dict[str, str] = {}
    settings: dict[str, Any] = {}
    schema: int = 1

    def events(self) -> list[Event]:
        environment = dict(self.environment)
        names = {"machines": "machine of each node", "disks": "disks of machines"}
        machines = {said: environment.pop(name) for name, said in names.items() if name in environment}
        opening = DrillsOpening(
            schema=self.schema,
            seed=self.seed,
            engines=[self.engine],
            environment=environment,
            started=self.started,
            topology=self.topology,
            drills=self.drills,
        )
        lab = LabCameUp(
            engine=self.engine,
            version=self.version,
            topology=self.topology,
            images=self.images,
            settings=self.settings | machines,
        )
        return [opening, lab]


class Closed(msgspec.Struct, tag_field="event", tag="closed"):
    """The last line of drill.jsonl: done, "interrupted by SIGNAL" or "crashed: ERROR"."""

    why: str

    def events(self) -> list[Event]:
        for why, before in ((INTERRUPTED, "interrupted by "), (CRASHED, "crashed: ")):
            if self.why.startswith(before):
                return [End(why=why, reason=self.why.removeprefix(before))]
        return [End(why=self.why)]


class Interrupted(msgspec.Struct, tag_field="event", tag="interrupted"):
    """A line before the last one of an experiment's record."""

    reason: str

    def events(self) -> list[Event]:
        return [End(why=INTERRUPTED, reason=self.reason)]


class Crashed(msgspec.Struct, tag_field="event", tag="crashed"):
    """A line before the last one of an experiment's record."""

    error: str

    def events(self) -> list[Event]:
        return [End(why=CRASHED, reason=self.error)]


# In schema 2 of drills every fault had the settings of all faults as keys of its own, empty where it took none.
SETTINGS_OF_SCHEMA_2, UNSET = ("toxic", "skew"), ("", 0)

# Before schema 5 a drill's key `initial_primary` was `serves`, and these figures had other names.
FIGURES_BEFORE_SCHEMA_5 = {
    "lost_s": "rpo_s",
    "service_back_s": "rto_s",
    "own_writes_missed": "read_your_writes_violations",
    "backward_reads": "monotonic_read_violations",
    "slowed": "latency_ratio",
    "kept_rate": "throughput_ratio",
}

AnyOld = Opened | Closed | Interrupted | Crashed
TAGS = {kind.__struct_config__.tag for kind in AnyOld.__args__}


def events(line: bytes) -> list[Event]:
    """Return the current events of an older version's line. Raise msgspec.MsgspecError if it is not one."""
    found = with_settings_apart(msgspec.json.decode(line), SETTINGS_OF_SCHEMA_2, UNSET)
    if isinstance(found, dict):
        for drill in (*found.get("drills", ()), found.get("drill")):
            if isinstance(drill, dict):
                _rename(drill)
    event = msgspec.convert(found, AnyOld | Evidence | DrillsOpening)
    return [event] if isinstance(event, Evidence | DrillsOpening) else event.events()


def _rename(drill: dict[str, Any]) -> None:
    """Give the key and the figures of a drill from before schema 5 their current names."""
    if "serves" not in drill:
        return
    drill["initial_primary"] = drill.pop("serves")
    for expectation in drill.get("expected", ()):
        name, dot, node = str(expectation["figure"]).partition(".")
        expectation["figure"] = FIGURES_BEFORE_SCHEMA_5.get(name, name) + dot + node
