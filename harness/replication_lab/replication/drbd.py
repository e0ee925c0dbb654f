"""Two machines with one replicated disk: whole when both disks are equal and one machine serves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from replication_lab.model.drill import MOUNT, View
from replication_lab.model.errors import LabError
from replication_lab.replication import drbd_operations
from replication_lab.replication.kind import Nodes, register
from replication_lab.world import drbd
from replication_lab.world.docker.lab import Lab, Proof
from replication_lab.world.mysql.server import Server


@register("drbd")
class Machines(Nodes):
    """The machines of a DRBD resource; the server runs on the primary only."""

    whole = "UpToDate on both disks"
    images = ("vm", "spindle")

    def __init__(self, lab: Lab):
        super().__init__(lab)
        self._old: list[str] = []

    def writer(self) -> Server:
        return self.server(drbd.primary(self.lab).node)

    def view(self, name: str) -> View:
        found = drbd.Peer(self.lab, name).status()
        return View(f"{found.role}, {found.connection}")

    def is_whole(self, name: str) -> bool:
        found = drbd.Peer(self.lab, name).status()
        # Somebody serves, here or there.
        if drbd.PRIMARY not in (found.role, found.peer_role):
            return False
        return found.whole and (not found.primary or bool(self.server(name).version()))

    def prove(self, toxics: Mapping[str, str]) -> list[Proof]:
        return drbd_operations.prove(self.lab, dict(toxics))

    def wait_until_level(self) -> None:
        drbd.wait_until_whole(self.lab)

    def differences(self) -> list[str]:
        """Return what differs on the two disks, below all rows; empty where they are equal."""
        self.wait_until_level()
        differing = drbd.verify(self.lab)
        return [f"the two disks differ in {differing} KiB"] if differing else []

    def holders(self) -> dict[str, str]:
        """Who can be asked is the primary; the other disk is compared with its own."""
        return {drbd.primary(self.lab).node: ""}

    def compared(self) -> dict[str, int]:
        """All blocks of both disks, as by `lab drbd verify`."""
        return {"differing_kib": drbd.verify(self.lab)}

    @contextmanager
    def optioned(self, options: Mapping[str, Sequence[str]]) -> Iterator[None]:
        """DRBD's on both machines, by kind, and the file system's; afterwards those of the resource's file."""
        peers = drbd.peers(self.lab).values() if options else ()
        try:
            for peer in peers:
                for kind in options.keys() - {MOUNT}:
                    peer.tell("options", kind, *options[kind])
                    peer.refuse_unless_set(options[kind])
            if MOUNT in options:
                drbd.primary(self.lab).tell("remount", *options[MOUNT])
            yield
        finally:
            # One that does not answer has ended, and begins with its file's.
            for peer in peers:
                with suppress(LabError):
                    peer.tell("adjust")
            if MOUNT in options:
                with suppress(LabError):
                    drbd.primary(self.lab).tell("remount")

    def promote(self, name: str) -> None:
        """One without power gets it back, before the other one, which could tell it what it lacks."""
        self._old = [old for old in self.names if old != name]
        was_off = self.lab.state_of(name)[0] == "exited"
        if was_off:
            drbd.Peer(self.lab, name).power_on()
        drbd_operations.promote(self.lab, name, behind=was_off)

    def rejoin(self) -> None:
        for name in self._old:
            drbd_operations.online(self.lab, name)
