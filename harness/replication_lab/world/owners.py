"""The owner of a lab: the process that made it, as a text for labels and files, and whether that process still runs.

An owner counts as dead only if this process can verify it: the owner is of this user, this machine and this process
namespace. A change of the clock has no effect, because the start of an owner is counted from the boot.
"""

import os
import platform
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import quote

import psutil

from replication_lab.world import lab_files
from replication_lab.world.docker import machine

# The label of what was started with Compose directly.
BY_HAND = "compose"
UNKNOWN = "unknown"
# The namespace in which a machine boots (PROC_PID_INIT_INO), and the value used on systems without namespaces.
NO_NAMESPACES = "none"
OF_THE_MACHINE = ("4026531836", NO_NAMESPACES)
FORM = re.compile(
    r"user=(?P<user>\d{1,10}),process=(?P<process>\d{1,10}),since=(?P<since>\d{1,20}),namespace=(?P<namespace>\w{1,20})"
    r",boot=(?P<boot>[\w-]{1,64}),machine=(?P<machine>[\w-]{1,64}),host=(?P<host>[\w.%-]{1,255})@(?P<folder>\S{1,4096})"
)
# In /proc/PID/stat after the name (proc_pid_stat(5)): the state, and the start in clock ticks since boot.
STATE, START = 0, 19
ENDED = ("Z", "X", "x")
# psutil corrects the start of a process for steps of the clock since psutil was imported.
_BOOTED = psutil.boot_time()


@dataclass(frozen=True)
class Owner:
    """A process. `since` is its start: clock ticks since boot, or without /proc milliseconds of the clock at its start.

    `namespace` is that of its number, `folder` where it keeps the files of its labs, percent-encoded.
    """

    user: str
    process: str
    since: str
    namespace: str
    boot: str
    machine: str
    host: str
    folder: str

    def __str__(self) -> str:
        parts = ("user", "process", "since", "namespace", "boot", "machine", "host")
        return ",".join(f"{each}={getattr(self, each)}" for each in parts) + f"@{self.folder}"

    def may_be_seen(self) -> bool:
        """Return whether this process could find it by its number: in the same namespace, since the same boot."""
        mine = _this()
        return UNKNOWN not in (self.boot, self.namespace) and (self.boot, self.namespace) == (mine.boot, mine.namespace)

    def runs(self) -> bool:
        return start_of(int(self.process)) == self.since

    def ended_with_the_machine(self) -> bool:
        """Return whether this machine has booted since.

        Never in a container, where machine and namespace do not show this, and never with an engine that others may
        use: a clone of this machine has the same name and the same ID, and another boot.
        """
        mine = _this()
        same = (self.machine, self.host, self.namespace) == (mine.machine, mine.host, mine.namespace)
        known = UNKNOWN not in (self.machine, self.boot, mine.boot) and self.namespace in OF_THE_MACHINE
        return same and known and self.boot != mine.boot and not machine.is_shared()


def owner() -> str:
    """Return the mark of this process."""
    return str(_this())


@cache
def _by_process(process: int) -> Owner:
    return Owner(
        user=str(os.getuid()),
        process=str(process),
        since=start_of(process) or "0",
        namespace=_namespace(process),
        boot=boot(),
        machine=_word(_text("/etc/machine-id")),
        host=quote(platform.node(), safe="") or UNKNOWN,
        folder="",
    )


def _this() -> Owner:
    # A forked process has another number.
    return replace(_by_process(os.getpid()), folder=quote(str(lab_files.FOLDER)))


def parsed(mark: str) -> Owner | None:
    """Return the owner of a mark; None for any other text, and for the marks of earlier versions."""
    found = FORM.fullmatch(mark)
    return Owner(**found.groupdict()) if found else None


def is_alive(mark: str) -> bool:
    """Return whether its process can be seen, and runs."""
    found = parsed(mark)
    return found is not None and found.may_be_seen() and found.runs()


def is_dead(mark: str) -> bool:
    """Return whether its process is of this user and is known to have ended."""
    found = parsed(mark)
    if found is None or found.user != _this().user:
        return False
    return not found.runs() if found.may_be_seen() else found.ended_with_the_machine()


def is_left(mark: str) -> bool:
    """Return whether its process is known to have ended, and kept its files where this process does."""
    return is_of_this_checkout(mark) and is_dead(mark)


def is_of_this_checkout(mark: str) -> bool:
    """Return whether it keeps its files where this process does. The folder of a mark is compared, and never opened."""
    found = parsed(mark)
    return found is not None and found.folder == _this().folder


def is_of_this_boot(mark: str) -> bool:
    found = parsed(mark)
    return found is not None and found.boot == _this().boot


def other_user(mark: str) -> str:
    """Return the number of the user that it is of; an empty string if that is this user, or not known."""
    found = parsed(mark)
    return found.user if found and found.user != _this().user else ""


def described(mark: str) -> str:
    """Return in words why this process does not treat it as its own; an empty string if it does."""
    found = parsed(mark)
    if found is None:
        return "started by Compose alone" if mark == BY_HAND else "owner unknown, or of an older version"
    if other_user(mark):
        return f"of user {found.user}"
    if not found.may_be_seen() and not found.ended_with_the_machine():
        return f"of another machine or container, {found.host}"
    return "" if is_of_this_checkout(mark) else "of another checkout"


def start_of(process: int) -> str | None:
    """Return the start of a running process, which tells it from others with its number; None if it does not run."""
    if not _has_proc():
        with suppress(psutil.Error, OverflowError):
            found = psutil.Process(process)
            return str(round(1000 * (found.create_time() - psutil.boot_time() + _BOOTED)))
        return None
    fields = _text(f"/proc/{process}/stat").rpartition(")")[2].split()
    return None if len(fields) <= START or fields[STATE] in ENDED else fields[START]


def _namespace(process: int) -> str:
    """Return the namespace of process numbers; unknown if /proc shows the processes of another one."""
    if not _has_proc():
        return NO_NAMESPACES
    with suppress(OSError):
        if os.readlink("/proc/self") == str(process):
            return str(Path("/proc/self/ns/pid").stat().st_ino)
    return UNKNOWN


def boot() -> str:
    """Return the ID of this boot of the machine."""
    if _has_proc():
        return _word(_text("/proc/sys/kernel/random/boot_id"))
    with suppress(OSError):
        asked = ["sysctl", "-n", "kern.bootsessionuuid"]
        return _word(subprocess.run(asked, capture_output=True, text=True, check=False).stdout)
    return UNKNOWN


def _has_proc() -> bool:
    return platform.system() == "Linux"


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(errors="replace")
    return ""


def _word(text: str) -> str:
    found = text.strip()
    return found if re.fullmatch(r"[\w-]{1,64}", found) else UNKNOWN
