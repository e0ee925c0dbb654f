"""A DRBD resource of two machines in a running lab: each machine's state of it, and its commands (images/vm)."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.world import at_once, clock
from replication_lab.world.disks.spindle import Spindle
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node

PRIMARY, CONNECTED, STAND_ALONE = "Primary", "Connected", "StandAlone"
# The disk under a machine's resource.
DISK = "disk1"
UP_TO_DATE, DISKLESS = "UpToDate", "Diskless"
# The states of a running comparison, in which both machines have all data and every write goes to both.
COMPARING = ("VerifyS", "VerifyT")
BOOT_SECONDS, CONNECT_SECONDS, POLL_SECONDS = 120, 60, 0.2
# How long a running machine may stay unresponsive before this is reported.
SILENT_SECONDS = 20
# DRBD notices a dead peer only by timeout (compose/drbd/lab.res), and InnoDB has to recover.
SERVE_SECONDS = 120
# Each poll takes 0.3 s of the guest's only CPU, which the comparison needs.
COMPARED_POLL_SECONDS = 1
STATE = re.compile(r"^ 0: cs:(\w+)(?: ro:(\w+)/(\w+) ds:(\w+)/(\w+) ([ABC])?)?", re.M)
COUNTED = re.compile(r"\b(ns|nr|dw|dr|al|oos):(\d+)")
WRITE_ORDER = re.compile(r"\bwo:(\w)")
MOMENT = re.compile(r"^(connected|compared)-at (\S+)$", re.M)
# "  max-buffers  2048; # default", as drbdsetup prints it.
SETTING = re.compile(r"^\s+([a-z][a-z-]+)\s+(\S+);", re.M)
SYNCED = re.compile(r"(?:sync'ed|verified):\s*([\d.]+)%")


class ResourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's resource by /proc/drbd of DRBD 8.4; counts are in KiB since it was brought up.

    `out_of_sync_kib` is DRBD's oos: the data known to differ. `write_order` is how DRBD keeps the order of writes on
    its disk: f flushes it, d waits until it is idle, n does nothing. `synced_percent` is the progress of a running
    resync or comparison. `activity_log_writes` counts writes to the log of recently written extents. `connected_at` and
    `compared_at` are the times of the last connection and of the end of the last comparison, by the guest's clock;
    empty if there was none.
    """

    connection: str
    role: str = "Unknown"
    peer_role: str = "Unknown"
    disk: str = "DUnknown"
    peer_disk: str = "DUnknown"
    protocol: str = ""
    write_order: str = ""
    sent_kib: int = 0
    received_kib: int = 0
    written_kib: int = 0
    read_kib: int = 0
    activity_log_writes: int = 0
    out_of_sync_kib: int = 0
    synced_percent: float | None = None
    split_brain: bool = False
    connected_at: str = ""
    compared_at: str = ""

    @property
    def primary(self) -> bool:
        return self.role == PRIMARY

    @property
    def whole(self) -> bool:
        """Whether both machines have the same data, and every write goes to both."""
        return self._meets and {self.disk, self.peer_disk} == {UP_TO_DATE} and not self.out_of_sync_kib

    @property
    def has_all(self) -> bool:
        """Whether this machine has all data; if its peer lost the disk, data out of sync are missing there only."""
        complete = not self.out_of_sync_kib or self.peer_disk == DISKLESS
        return self._meets and self.disk == UP_TO_DATE and complete

    @property
    def _meets(self) -> bool:
        return self.connection in (CONNECTED, *COMPARING)

    def words(self) -> str:
        """Return all of it in one line."""
        synced = f", {self.synced_percent:g} % done" if self.synced_percent is not None else ""
        return f"{self._state()}, oos {self.out_of_sync_kib} KiB{synced}"

    def disks(self) -> str:
        """Return the state of both disks, and whether they have the same data."""
        return f"{self.disk}/{self.peer_disk}, {'out of sync' if self.out_of_sync_kib else 'in sync'}"

    def recovered(self) -> str:
        """Return the progress of the recovery in words, without what clients' writes change while the peer is away."""
        away = self.synced_percent is None and self.connection != CONNECTED
        return self._state() if away else self.words()

    def _state(self) -> str:
        return f"{self.role}, {self.connection}, {self.disk} here, {self.peer_disk} there"


FIELDS = {
    "ns": "sent_kib",
    "nr": "received_kib",
    "dw": "written_kib",
    "dr": "read_kib",
    "al": "activity_log_writes",
    "oos": "out_of_sync_kib",
}


def parse_status(text: str) -> ResourceStatus:
    """Return the Status of the output of `resource status`; LabError if there is no resource."""
    state = STATE.search(text)
    if not state:
        raise LabError(
            f"there is no DRBD resource: {text.strip() or 'no answer'}", "/proc/drbd with minor 0", "./lab logs node1"
        )
    names = ("connection", "role", "peer_role", "disk", "peer_disk", "protocol")
    found = {name: value for name, value in zip(names, state.groups(), strict=True) if value}
    counted = {FIELDS[name]: int(number) for name, number in COUNTED.findall(text)}
    moments = {f"{what}_at": when for what, when in MOMENT.findall(text)}
    order, synced = WRITE_ORDER.search(text), SYNCED.search(text)
    rest = {
        "write_order": order[1] if order else "",
        "synced_percent": float(synced[1]) if synced else None,
        "split_brain": "split-brain" in text.splitlines(),
    }
    return msgspec.convert({**found, **counted, **moments, **rest}, ResourceStatus)


@dataclass(frozen=True)
class Peer:
    """One of the resource's two machines."""

    lab: Lab
    node: str

    @cached_property
    def disk(self) -> Spindle:
        """The emulated disk under it."""
        return Spindle(self.lab.service(f"{self.node}-{DISK}").container)

    def tell(self, *words: str) -> str:
        """Return the output of `resource WORD…` in the guest; LabError with its message when it refuses."""
        return self.machine.run("guest", "resource", *words)

    def refuse_unless_set(self, words: Sequence[str]) -> None:
        """Raise LabError if options (--NAME=VALUE, as drbdsetup prints them) were accepted but are not in force."""
        asked = dict(word.removeprefix("--").split("=", 1) for word in words)
        found = {name: value for name, value in self.settings().items() if name in asked}
        if found != asked:
            raise LabError(f"{self.node} has {found}", f"{asked}", f"./lab exec {self.node} resource settings")

    def launcher(self) -> str:
        """Return the program that runs the guest: uml, kvm or tcg."""
        return self.machine.run("printenv", "LAB_VM").strip()

    @property
    def machine(self) -> Node:
        return self.lab.node(self.node)

    def state(self) -> str:
        """Return the state of its container: running, paused, exited."""
        return self.machine.state()[0]

    def refuse_unless_running(self) -> None:
        """Raise LabError, with the command that brings it back, if the machine is off or frozen."""
        state = self.state()
        if state != "running":
            said = "frozen" if state == "paused" else "not running"
            raise LabError(f"{self.node} is {said}", "a running machine", f"./lab start {self.node}")

    def power_on(self) -> ResourceStatus:
        """Start its disk and its machine, if they are off; return its status once its resource is up."""
        disk = f"{self.node}-{DISK}"
        if self.lab.service(disk).state()[0] == "exited":
            self.lab.service(disk).start_again()
            clock.wait_until(self.lab.service(disk).is_healthy, f"the disk {disk} to be healthy", BOOT_SECONDS)
        if self.state() == "exited":
            self.machine.start_again()
        return self.wait_until_answers()

    def status(self) -> ResourceStatus:
        return parse_status(self.tell("status"))

    def states(self) -> Conversation:
        """Return a command in the machine whose answers are /proc/drbd. No program is started for an answer."""
        words = ("exec", "-i", str(self.machine.container.id), "guest", "resource", "states")
        return Conversation(self.machine.name, *words, site=self.machine.site)

    def settings(self) -> dict[str, str]:
        """Return the resource's options that are in force, defaults included: {option: value}."""
        return dict(SETTING.findall(self.tell("settings")))

    def wait_until_answers(self, seconds: float = BOOT_SECONDS) -> ResourceStatus:
        """Wait until its resource is up, for example after a start; LabError if the machine does not run."""
        return clock.wait_until(
            self._answer_soon, f"{self.node} to report its DRBD resource", seconds, every=POLL_SECONDS
        )

    def _answer_soon(self) -> ResourceStatus | None:
        self.refuse_unless_running()
        return self.answer()

    def wait_until_serves(self) -> None:
        """Wait until its server answers, for example after a promotion."""
        clock.wait_until(
            self.machine.answers,
            f"the server on {self.node} to answer",
            SERVE_SECONDS,
            every=0.1,
            hint=f"./lab logs {self.node} --lab {self.lab.name}",
        )

    def answer(self) -> ResourceStatus | None:
        """Return its status; None if it is dead, frozen or booting."""
        with suppress(LabError):
            return self.status()
        return None

    def going_on(self) -> ResourceStatus:
        """Return its status; LabError if it has stopped trying to connect, because it would never recover."""
        found = self.status()
        if found.connection == STAND_ALONE:
            raise LabError(
                f"{self.node} has stopped trying to connect. {self.last_log_lines()}",
                "a peer with the same settings, and no split brain",
                "./lab status",
            )
        return found

    def last_log_lines(self) -> str:
        """Return its kernel's last messages about the resource, indented below a heading."""
        words = self.machine.run("guest", "sh", "-c", "dmesg | grep drbd | tail -n 12").strip()
        return f"The end of {self.node}'s kernel log about DRBD:\n  {words}"

    def differing_kib(self, progress: Callable[[float], None] = lambda _: None) -> int:
        """Compare both disks block by block while they are in use; return the amount of differing data in KiB.

        `progress` is called with the percentage compared, about once a second. Raise LabError for a comparison that did
        not end, or whose differences have been resynced since.
        """
        before = self.status()
        self.tell("verify")
        clock.wait_while_moving(
            lambda: self._has_compared(progress),
            "the comparison to end",
            every=COMPARED_POLL_SECONDS,
            hint="./lab status",
        )
        found = self.status()
        if found.compared_at == before.compared_at or found.connected_at != before.connected_at:
            raise LabError(
                f"the comparison of both disks was aborted: {found.words()}. {self.last_log_lines()}",
                "machines that stay connected until all blocks are compared",
                f"./lab disk check {self.node}",
            )
        return found.out_of_sync_kib

    def _has_compared(self, progress: Callable[[float], None]) -> tuple[bool, str]:
        found = self.status()
        if found.synced_percent is not None:
            progress(found.synced_percent)
        return found.connection not in COMPARING, found.words()


def wait_until_whole(lab: Lab, progress: Callable[[float], None] = lambda _: None) -> None:
    """Wait until both machines have the same data again, resync included, for as long as the state changes.

    Raise LabError if a machine has stopped trying to connect, or the state no longer changes. `progress` is called with
    the percentage of a resync, a few times a second.
    """
    both = list(peers(lab).values())
    try:
        clock.wait_while_moving(
            lambda: _recovery(both, progress),
            f"both machines {CONNECTED} and {UP_TO_DATE}",
            every=POLL_SECONDS,
            hint="./lab status",
        )
    except clock.Stalled as stalled:
        words = "\n".join(peer.last_log_lines() for peer in both)
        raise LabError(f"{stalled.found}.\n{words}", stalled.expected, stalled.next_step) from stalled


def _recovery(both: list[Peer], progress: Callable[[float], None]) -> tuple[bool, str]:
    """Return whether two machines have the same data, and the state of each in words."""
    found = {peer.node: peer.going_on() for peer in both}
    for percent in [status.synced_percent for status in found.values() if status.synced_percent is not None][:1]:
        progress(percent)
    said = "; ".join(f"{node} {status.recovered()}" for node, status in found.items())
    return all(status.whole for status in found.values()), said


def verify(lab: Lab, progress: Callable[[float], None] = lambda _: None) -> int:
    """Compare all blocks of both disks; return the differing data in KiB. `progress` is called with percentages."""
    return next(iter(peers(lab).values())).differing_kib(progress)


def peers(lab: Lab) -> dict[str, Peer]:
    """Return the resource's machines by node."""
    return {node.name: Peer(lab, node.name) for node in lab.topology.nodes}


def other(lab: Lab, node: str) -> Peer:
    """Return the peer of a machine."""
    return next(peer for name, peer in peers(lab).items() if name != node)


def primary(lab: Lab) -> Peer:
    """Return the machine that is primary; LabError if none is, or both are."""
    both = list(peers(lab).values())
    # At once: a machine takes a third of a second to answer.
    found = list(zip(both, at_once.of_each(_state_and_role, both), strict=True))
    serving = [peer for peer, (_, role) in found if role == PRIMARY]
    for peer in [peer for peer, (state, _) in found if state == "paused" and not serving]:
        peer.refuse_unless_running()
    if len(serving) != 1:
        names = " and ".join(peer.node for peer in serving) or "no machine"
        raise LabError(f"{names} of {lab.name} is primary", "one primary", "./lab status")
    return serving[0]


def _state_and_role(peer: Peer) -> tuple[str, str]:
    """Return the state of a machine's container, and its role if it runs."""
    state = peer.state()
    return state, peer.status().role if state == "running" else ""
