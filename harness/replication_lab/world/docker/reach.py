"""The machine of an engine that is not this one: its published ports, and its files of /proc and /sys.

Ports are published on that machine's loopback only. A container of the lab, in the network and among the processes of
that machine, connects to them and reads the files; the engine's own connection (tcp:// with or without TLS, ssh://)
carries both. The container ends with this process, however it ends.
"""

import json
import re
import socket
import threading
import uuid
from collections.abc import Collection, Iterable, Sequence

from replication_lab.model.core.errors import LabError
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import control_groups, engine, images, machine, site_images
from replication_lab.world.docker.by_ssh import carry
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.host import BOOT, HERE, MachineFiles

IMAGE = "toxiproxy"
START_SECONDS = 20
# It reads what any user may read, and with SYS_PTRACE what processes made disks do.
OPTIONS = (
    *("--rm", "--interactive", "--network", "host", "--pid", "host", "--cgroupns", "host", "--read-only"),
    *("--cap-drop", "ALL", "--cap-add", "SYS_PTRACE", "--security-opt", "no-new-privileges"),
    *("--volume", "/sys/fs/cgroup:/sys/fs/cgroup:ro", "--log-driver", "none", "--entrypoint", "/reach"),
)


class _Hand:
    """The container on the engine's machine; `name` is its own, `id` the engine's for it."""

    def __init__(self, site: str) -> None:
        images.ensure([IMAGE])
        site_images.bring(site, [images.PREFIX + IMAGE])
        self.name = f"replication-lab-reach-{uuid.uuid4().hex[:12]}"
        run = ("run", "--name", self.name, *OPTIONS, images.PREFIX + IMAGE)
        self.talk = Conversation(f"the engine's machine{f' at {site}' if site else ''}", *run, site=site)
        wait_until(self.answers, "the container on the engine's machine to answer", START_SECONDS, hint="./lab doctor")
        self.id = (re.findall("[0-9a-f]{64}", self.talk.ask("/proc/self/cgroup")) or [self.name])[-1]

    def answers(self) -> bool:
        """Return whether it answers; LabError if it has ended."""
        try:
            return self.talk.ask() == "{}"
        except LabError:
            if self.talk.has_ended:
                raise
            return False


_guard = threading.RLock()
# By the endpoint of the site, empty for the command's own engine.
_hands: dict[str, _Hand] = {}
# The address on this machine's loopback that leads to one on the machine of a site's engine.
_ways: dict[tuple[str, str, int], tuple[str, int]] = {}


def _hand(site: str = "") -> _Hand:
    with _guard:
        if site not in _hands or _hands[site].talk.has_ended:
            _hands[site] = _Hand(site)
        return _hands[site]


def address(host: str, port: int, site: str = "") -> tuple[str, int]:
    """Return the address on this machine's loopback that leads to one on the engine's machine, for this process's life.

    A refused connection is accepted here, and ends at once.
    """
    _hand(site)
    with _guard:
        if (site, host, port) not in _ways:
            listening = socket.create_server(("127.0.0.1", 0))
            connect = ("exec", "--interactive", _hand(site).name, "/reach", f"{host}:{port}")
            carry(listening, lambda: [*engine.command_for(site), *connect])
            _ways[site, host, port] = listening.getsockname()
        return _ways[site, host, port]


def files(paths: Sequence[str], site: str = "") -> MachineFiles:
    """Return the files on the machine of a site that match these paths, as images/toxiproxy/reach reads them.

    What the kernel counts there for these containers themselves is among them.
    """
    with _guard:
        hand = _hand(site)
        counted = (path for each in _hands.values() for path in control_groups.paths(each.id))
        return MachineFiles(json.loads(hand.talk.ask(" ".join((*paths, *counted)))))


def own_containers(site: str, apart: Collection[str]) -> list[str]:
    """Return the IDs of this process's own such containers on a site's machine, as `LabContainers.every_at` does."""
    with _guard:
        return [hand.id for at, hand in _hands.items() if (at == site if site else at not in apart)]


def machine_files(*paths: str, site: str = "") -> MachineFiles:
    """Return the files of a site's machine that match these paths, by default of the command's engine.

    They are this machine's own, if that engine runs here.
    """
    return files(paths, site) if site or machine.facts().elsewhere else HERE


def first_on_its_machine(sites: Iterable[str]) -> dict[str, str]:
    """Return for each site the first one whose engine runs on the same machine; the command's own engine is before all.

    Sites with the same first one share their CPUs.
    """
    firsts: dict[str, str] = {}
    booted = {site: machine_files(BOOT, site=site).text(BOOT) for site in dict.fromkeys(("", *sites))}
    return {site: firsts.setdefault(boot, site) for site, boot in booted.items()}


def is_another_machine(site: str) -> bool:
    """Return whether a site's engine runs on another machine than the command's: two engines can share one."""
    try:
        return machine_files(BOOT, site=site).text(BOOT) != machine_files(BOOT).text(BOOT)
    except OSError:
        return True
