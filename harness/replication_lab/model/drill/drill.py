"""A drill: clients write, a fault is injected and undone, and the result is compared with what was promised.

Data only: one YAML file per drill (drills/TOPOLOGY/NAME.yaml). The result of a drill is in drill_result.
"""

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error, refuse_long, refuse_unknown
from replication_lab.model.core.quantity import with_durations
from replication_lab.model.core.verdict import Expected, Verdict
from replication_lab.model.drill.fault import FaultKind, Value
from replication_lab.model.lab.endpoint import ENDPOINT, ENDPOINT_READS
from replication_lab.model.lab.storage import Storage, parse_storage
from replication_lab.model.lab.topology import Topology

# The longest random wait before the first fault. The seed draws it, so that runs hit different moments.
DRAWN_SECONDS = 0.5
# The fault that leaves another server on a node.
UPGRADE = "upgrade"
# The faults that are a planned change themselves: they act from the begin of their injection on, until it is done.
NEW_REPLICA, SCHEMA_CHANGE = CHANGES = "new-replica", "schema-change"
# The keys of a drill's file whose values are faults.
HOLD_FAULTS = ("steps", "also")


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a drill's file: an unknown key is an error."""


class FaultSpec(_Strict, frozen=True, kw_only=True):
    """One fault on `targets`, nodes or links, `at` seconds into its step.

    If the fault is one of links, a node among the targets stands for all links from and to it. `settings` holds the
    keys of a drill's file that only this kind of fault has.
    """

    fault: str
    targets: list[str]
    settings: dict[str, Value] = {}
    at: float = 0.0

    def __str__(self) -> str:
        after = [f"after {self.at:g} s"] if self.at else []
        how = [value if isinstance(value, str) else f"{name} {value:+g}" for name, value in self.settings.items()]
        return " ".join([self.fault, *how, "on", ", ".join(self.targets), *after])


class Failover(_Strict, frozen=True, kw_only=True):
    """A failover to a node: as after a loss, whatever it loses; or one that must be refused, since it would lose."""

    to: str
    expect: Literal["promoted", "refused"] = "promoted"


class Step(FaultSpec, frozen=True, kw_only=True):
    """A fault that lasts `seconds`. The faults in `also` are injected at the same time or later, and end with it.

    `failover` names the node that is promoted just before the end. The previous source comes back as its replica, and
    so does any replica that is ahead of it; transactions that only they have are discarded. A failover that has to be
    refused changes nothing. Under a manager the key says that a failover is needed, and the manager chooses the node.

    With `recover: none` the faults of a drill's last step stay until its result is read: the rows are then those of the
    nodes that take writes, and no node is taken back.
    """

    seconds: float
    also: list[FaultSpec] = []
    failover: str | Failover = ""
    recover: Literal["all", "none"] = "all"

    @property
    def stays(self) -> bool:
        """Whether its faults stay until the drill's result is read."""
        return self.recover == "none"

    @property
    def promotes(self) -> str:
        """The node to which a failover is made or tried; empty without one."""
        return self.failover.to if isinstance(self.failover, Failover) else self.failover

    @property
    def is_refused(self) -> bool:
        """Whether the failover has to be refused."""
        return isinstance(self.failover, Failover) and self.failover.expect == "refused"

    @property
    def fault_specs(self) -> list[FaultSpec]:
        return [self, *self.also]

    def __str__(self) -> str:
        return " and ".join(FaultSpec.__str__(spec) for spec in self.fault_specs)


class Waiting(_Strict, frozen=True):
    """How a semi-synchronous source waits: AFTER_SYNC or AFTER_COMMIT, for at most this many ms, for how many replicas.

    `infinite` is the longest timeout that every server takes, 49 days.
    """

    wait_point: str | None = None
    timeout_ms: int | Literal["infinite"] | None = None
    acknowledgements: int | None = None


class Expectation(_Strict, frozen=True):
    """A sentence about a figure of the checkers or of the evidence, and the verdict that is known for it.

    One of `equals`, `at_least` and `at_most` is the relation. A verdict REFUTED needs its reason in `because`.
    """

    says: str
    figure: str
    equals: int | float | str | None = None
    at_least: int | float | None = None
    at_most: int | float | None = None
    expect: Verdict = Verdict.HOLDS
    because: str = ""

    @property
    def bound(self) -> str:
        words = (("", self.equals), ("at least ", self.at_least), ("at most ", self.at_most))
        return next(f"{word}{value}" for word, value in words if value is not None)

    def holds(self, found: float | str) -> bool:
        if self.equals is not None:
            return found == self.equals
        if isinstance(found, str):
            raise TypeError(f"{found!r} has no size")
        if self.at_least is not None:
            return found >= self.at_least
        return self.at_most is not None and found <= self.at_most


# Expectations by name: what drills/promises.yaml has.
Promises = Mapping[str, Expectation]


class Drill(_Strict, frozen=True):
    """A topology under load, the faults injected there, and the expected results. Times are seconds.

    `clients` maps each node to the number of clients that write there. `reads` maps such a node to the node on
    which its clients look for their rows after each statement. `rows` is how many rows the clients' table has before
    they write, at least. `think_ms` is the pause of each client after a
    statement. `watchers` are clients that only read. `before` and `after` are the times without a fault. `settings`
    are global variables of every node during the drill, or with NODE.VARIABLE of one. `semisync` is how the source
    waits. `initial_primary` is the node that serves first, in a topology that allows more than one. `options` are
    those of DRBD on both machines during the drill, by kind (disk, net), and of its file system (mount).
    `tolerates` names patterns of forbidden.yaml. `answers` is a further name by which `lab ask --drill` finds the
    drill; drills with the same name mean the same in each topology. `through` is a link that the clients that write
    connect across. `endpoint` is the proxy that all clients use in place of the nodes, with `endpoint_settings`; then
    ENDPOINT is the only key of `clients`. `manager` is the failover manager, with `manager_settings`; then the lab
    promotes no node. `engine` is the one with which its lab starts, in place of the run's. `storage` has the level of
    the emulated disks, such as raid0:3, on which its lab puts the data of a node.
    """

    name: str
    topology: str
    about: str
    clients: dict[str, int]
    expected: list[Expectation]
    initial_primary: str = ""
    steps: list[Step] = []
    before: float = 1.0
    after: float = 1.0
    hot_row: bool = False
    rows: int = 0
    reads: dict[str, str] = {}
    think_ms: float = 0
    watchers: dict[str, int] = {}
    settings: dict[str, int | str] = {}
    semisync: Waiting | None = None
    options: dict[str, list[str]] = {}
    tolerates: list[str] = []
    answers: str = ""
    through: str = ""
    endpoint: str = ""
    endpoint_settings: dict[str, int | str] = {}
    engine: str = ""
    storage: dict[str, str] = {}
    manager: str = ""
    manager_settings: dict[str, int | str] = {}

    @property
    def storages(self) -> dict[str, Storage]:
        """The storage of each node that it puts on emulated disks itself."""
        return parse_storage([f"{node}={level}" for node, level in self.storage.items()], [*self.storage], [])

    @property
    def changes_roles(self) -> bool:
        """Whether the drill leaves another source, or a node that restarted its transaction numbers."""
        return bool(self.manager) or any(step.failover for step in self.steps)

    @property
    def changes_lab(self) -> bool:
        """Whether the drill leaves a lab that is no longer as it was started."""
        stays = any(step.stays for step in self.steps)
        return self.changes_roles or stays or any(spec.fault == UPGRADE for spec in self.fault_specs)

    @property
    def engines(self) -> list[str]:
        """The engines that it names itself: that with which its lab starts, and those of upgrades."""
        upgrades = (str(spec.settings["to"]) for spec in self.fault_specs if spec.fault == UPGRADE)
        return [engine for engine in (self.engine, *upgrades) if engine]

    @property
    def fault_specs(self) -> Iterator[FaultSpec]:
        return (spec for step in self.steps for spec in step.fault_specs)

    def ends_servers(self, kinds: Mapping[str, FaultKind]) -> bool:
        return any(kinds[spec.fault].ends_servers for spec in self.fault_specs)

    def moves_clocks(self, kinds: Mapping[str, FaultKind]) -> bool:
        return any(kinds[spec.fault].moves_clocks for spec in self.fault_specs)

    def with_duration(self, seconds: float | None) -> "Drill":
        """Return the same drill with this duration of its faults; without a fault, of its load."""
        if seconds is None:
            return self
        if not self.steps:
            return msgspec.structs.replace(self, before=seconds)
        steps = [msgspec.structs.replace(step, seconds=seconds) for step in self.steps]
        return msgspec.structs.replace(self, steps=steps)

    def at_endpoint(self, name: str, settings: Mapping[str, int | str]) -> "Drill":
        """Return the same drill with all clients at an endpoint; LabError if some have to use a link or a node."""
        if self.through:
            raise LabError(
                f"drill {self.name}: its clients connect across link {self.through}, not to an endpoint",
                "a drill without the key through",
                "./lab drill",
            )

        return msgspec.structs.replace(
            self,
            clients={ENDPOINT: sum(self.clients.values())},
            watchers={ENDPOINT_READS: sum(self.watchers.values())} if self.watchers else {},
            reads={ENDPOINT: ENDPOINT_READS} if self.reads else {},
            endpoint=name,
            endpoint_settings={**self.endpoint_settings, **settings},
        )

    def under_manager(self, name: str, settings: Mapping[str, int | str], nodes: Collection[str]) -> "Drill":
        """Return the same drill under a failover manager, with clients at each of these nodes: any may be promoted."""
        clients = self.clients if self.endpoint else {**dict.fromkeys(nodes, 1), **self.clients}
        return msgspec.structs.replace(self, clients=clients, manager=name, manager_settings=dict(settings))

    def wait_before(self, seed: int) -> float:
        """Return the seconds before the first fault, which depend on the seed."""
        return round(self.before + random.Random(f"{seed}:{self.name}").uniform(0, DRAWN_SECONDS), 3)


def setting_of(name: str) -> tuple[str, str]:
    """Return the node and the variable of a setting: NODE.VARIABLE; no node for a variable of every node."""
    node, _, variable = name.rpartition(".")
    return node, variable


def file_of(topology: str, name: str) -> str:
    """Return the path of a drill's file, for messages."""
    return f"harness/replication_lab/drills/{topology}/{name}.yaml"


def parse_drill(
    name: str,
    topology: Topology,
    text: str | bytes,
    kinds: Mapping[str, FaultKind],
    where: str = "",
    *,
    known: Promises = MappingProxyType({}),
) -> Drill:
    """Return the drill of a YAML text; LabError names the key, fault, node, link or setting that does not fit.

    `where` is the file that messages name; empty for the lab's own. `known` are the promises that the key `promises`
    may name.
    """
    where = where or file_of(topology.name, name)
    refuse_long(name, "drill")
    with as_lab_error(
        (msgspec.MsgspecError, TypeError), f"{where}", "only the keys that docs/drills.md lists", "./lab drill"
    ):
        given, promised = _promises_apart(with_durations(msgspec.yaml.decode(text), where), known, where)
        settings = {setting.name for kind in kinds.values() for setting in kind.settings}
        own = {"name": name, "topology": topology.name, **_with_settings_apart(given, settings)}
        drill = msgspec.convert(own, Drill)
        drill = msgspec.structs.replace(drill, expected=[*promised, *drill.expected])
    for node in (
        *drill.clients,
        *drill.storage,
        drill.initial_primary,
        *drill.watchers,
        *drill.reads,
        *drill.reads.values(),
        *(step.promotes for step in drill.steps),
    ):
        if node and not (drill.endpoint and node in (ENDPOINT, ENDPOINT_READS)):
            topology.node(node)
    for each in drill.settings:
        if node := setting_of(each)[0]:
            topology.node(node)
    if drill.through:
        topology.link(drill.through)
    if any(step.stays for step in drill.steps[:-1]):
        raise LabError(f"{where}: recover: none in a step that others follow", "it in the last step", "./lab drill")
    placed = replace(topology, storage=topology.storage | drill.storages)
    for spec in drill.fault_specs:
        refuse_unknown(f"fault in {where}", spec.fault, kinds, "./lab drill")
        kinds[spec.fault].check_settings(where, spec.settings, kinds)
        kinds[spec.fault].check_targets(where, placed, spec.targets)
    for expectation in drill.expected:
        _check_expectation(where, expectation)
    return drill


def _promises_apart(given: Any, known: Promises, where: str) -> tuple[Any, list[Expectation]]:
    """Return the document without its key `promises`, and the expectations that this key names."""
    if not isinstance(given, dict) or "promises" not in given:
        return given, []
    names = msgspec.convert(given["promises"], list[str])
    for name in names:
        refuse_unknown(f"promise in {where}", name, known, "./lab drill")
    others = {key: value for key, value in given.items() if key != "promises"}
    return {"expected": [], **others}, [known[name] for name in names]


def _with_settings_apart(found: Any, keys: Collection[str]) -> Any:
    """Return the document with the `keys` of its faults moved into a dict of their own.

    A drill's file has them among the other keys. Parts of an unexpected shape are not changed; the later conversion
    refuses them.
    """
    if isinstance(found, list):
        return [_with_settings_apart(each, keys) for each in found]
    if not isinstance(found, dict):
        return found
    own = {key: _with_settings_apart(value, keys) if key in HOLD_FAULTS else value for key, value in found.items()}
    settings = {key: own.pop(key) for key in found if key in keys} if "fault" in own else {}
    if settings:
        own["settings"] = {**own.get("settings", {}), **settings}
    return own


def _check_expectation(where: str, expected: Expectation) -> None:
    given = [bound for bound in (expected.equals, expected.at_least, expected.at_most) if bound is not None]
    if len(given) != 1:
        raise LabError(
            f"{where}: {expected.says!r} must have exactly one relation",
            'one of the keys "equals", "at_least", "at_most"',
        )
    try:
        Expected(expected.expect, expected.because)
    except ValueError as error:
        refused = f"{where}: {expected.says!r} expects {expected.expect}"
        raise LabError(refused, 'HOLDS, or REFUTED with the key "because"') from error
