"""What the lab installs or changes on this host: asked for first, recorded, and undone.

LAB_INSTALL decides beforehand: `yes` asks nothing, `no` changes nothing. Without it a terminal is asked, and a command
without a terminal changes nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replication_lab.model.core.errors import LabError

VARIABLE = "LAB_INSTALL"
APT_INSTALL = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends")
TRIXIE_SOURCE = "/etc/apt/sources.list.d/replication-lab-trixie.sources"
TRIXIE_PIN = "/etc/apt/preferences.d/replication-lab-trixie"
# A line for each thing that the lab added, `package NAME` or `file PATH`. The launcher appends to it, too.
RECORD = Path("/var/lib/replication-lab/added")
APPEND = 'mkdir -p "$(dirname "$1")" && printf "%s\\n" "$2" >>"$1"'


@dataclass(frozen=True)
class HostChange:
    """One change of this host: why, the commands that make it, and what they add."""

    why: str
    commands: Sequence[Sequence[str]]
    packages: Sequence[str] = ()
    # Path: what the file is for.
    files: tuple[tuple[str, str], ...] = ()
    starts: str = ""

    def lines(self) -> list[str]:
        """Return what the change does to this host, a line for each thing."""
        adds = [f"add      {path} ({what})" for path, what in self.files]
        installs = [f"install  {', '.join(self.packages)}"] if self.packages else []
        return [*adds, *installs, *([f"start    {self.starts}"] if self.starts else [])]


def allow(change: HostChange) -> None:
    """Tell what will be changed, and wait for Enter on a terminal; LabError with the commands if it is refused."""
    decided = os.environ.get(VARIABLE, "")
    if decided not in ("", "yes", "no"):
        raise LabError(f"{VARIABLE}={decided}", f"{VARIABLE}=yes, {VARIABLE}=no, or unset", f"unset {VARIABLE}")
    if decided == "no":
        raise _refused(change, f"missing: {change.why}")
    if not decided and not _is_terminal():
        raise _refused(change, f"missing: {change.why}; there is no terminal to confirm its installation")
    listed = "".join(f"\n  {line}" for line in change.lines())
    if decided == "yes":
        if change.packages:
            print(f"installing {change.why}:{listed}", file=sys.stderr, flush=True)
        return
    undo = "To remove later what was added to apt: ./lab doctor --undo. " if change.files else ""
    print(
        f"missing: {change.why}. The lab can change this host:{listed}\n"
        f"{undo}To skip this question, set {VARIABLE}=yes or {VARIABLE}=no.",
        file=sys.stderr,
    )
    if not confirmed():
        raise _refused(change, "nothing was changed on this host")


def confirmed() -> bool:
    """Return whether Enter was pressed; True without a terminal to ask."""
    if os.environ.get(VARIABLE) == "yes" or not _is_terminal():
        return True
    print("Press Enter to continue, or type no: ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):
        # The end of the input (Ctrl-D) is no agreement.
        print(file=sys.stderr)
        return False
    return answer.strip().lower() in ("", "y", "yes")


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _refused(change: HostChange, found: str) -> LabError:
    by_hand = "\n  ".join(" ".join(["sudo", *command] if os.geteuid() else command) for command in change.commands)
    return LabError(
        found, f"these steps done by hand, or {VARIABLE}=yes to let the lab do it", f"by hand:\n  {by_hand}"
    )


def make(change: HostChange) -> None:
    """Make a change that was allowed. Record what it adds first: an interruption leaves nothing unknown."""
    # What is on this host already is not the lab's.
    packages = [f"package {name}" for name in change.packages if not _is_installed(name)]
    known = _recorded()
    for line in (*(f"file {path}" for path, _ in change.files), *packages):
        if line not in known:
            run_as_root(["sh", "-c", APPEND, "sh", str(RECORD), line])
    for command in change.commands:
        run_as_root(command)


def run_as_root(command: Sequence[str]) -> None:
    """Run a command as root (through sudo for others); LabError with its last lines when it fails."""
    full = [*(["sudo"] if os.geteuid() else []), *command]
    with tempfile.TemporaryFile("w+") as log:
        failed = subprocess.run(full, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
        log.seek(0)
        last = log.read().strip().splitlines()[-8:]
    if failed:
        raise LabError(
            f"`{' '.join(full)}` failed:\n  " + "\n  ".join(last), "exit status 0", "fix the cause, then ./lab doctor"
        )


@dataclass(frozen=True)
class Added:
    """What the lab added to this host and is still there."""

    files: list[str]
    packages: list[str]


def added() -> Added:
    """Return the files and packages that the lab added and that are still here.

    The files of apt have the project's name: they count also where an older version of the lab recorded nothing.
    """
    recorded = [line.partition(" ") for line in _recorded()]
    files = [name for kind, _, name in recorded if kind == "file"]
    packages = [name for kind, _, name in recorded if kind == "package"]
    return Added(
        [path for path in dict.fromkeys([*files, TRIXIE_SOURCE, TRIXIE_PIN]) if Path(path).exists()],
        [name for name in dict.fromkeys(packages) if _is_installed(name)],
    )


def remove(files: Sequence[str]) -> None:
    """Remove files that the lab added to apt, and their lines in the record."""
    if files:
        run_as_root(["rm", "-f", "--", *files])
    if RECORD.exists():
        run_as_root(["sed", "-i", "/^file /d", str(RECORD)])


def _recorded() -> list[str]:
    return RECORD.read_text().splitlines() if RECORD.exists() else []


def _is_installed(package: str) -> bool:
    if not shutil.which("dpkg-query"):
        return False
    command = ["dpkg-query", "-W", "-f=${db:Status-Status}", package.partition("/")[0]]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout == "installed"
