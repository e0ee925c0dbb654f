"""A virtual machine of the tests: commands in its guest, its array, and its ends."""

import secrets
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
from docker.errors import APIError, NotFound
from docker.models.containers import Container
from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker import engine
from replication_lab.world.machines import vm

LEVELS = ("raid0", "raid1", "single")
AGENT_SILENT = 255
RUN_SECONDS = 60
STOP_SECONDS = 60
# A guest that does not answer within 45 s is killed and started once more (images/vm/machine).
BOOT_SECONDS = 120
CONSOLE_LINES = 15


def settings(disks: Sequence[str] = (), array: str | None = None, server: bool = True) -> dict[str, str]:
    """Return the environment of a machine: hosts of its disks, its array's level, whether it starts MariaDB."""
    if array is not None and array not in LEVELS:
        raise LabError(f"unknown array level {array!r}", ", ".join(LEVELS), "ask for raid1")
    if array and not disks:
        raise LabError(f"{array} without disks", "the hosts of one disk or more", "start spindles first")
    return {"LAB_DISKS": " ".join(disks), "LAB_ARRAY": array or "", "LAB_SERVER": "on" if server else "off"}


class Answer(msgspec.Struct, frozen=True):
    """The result of a command in a guest: exit status and output."""

    code: int
    out: str
    err: str


class Array(msgspec.Struct, frozen=True):
    """The output of `array status`: md's activity `sync` (idle, recover, check), and each member's state, by number."""

    level: str
    size: int
    mounted: str
    state: str = ""
    degraded: int = 0
    sync: str = ""
    done: str = ""
    disks: dict[int, str] = {}


def parse_array(line: str) -> Array:
    """Parse the words NAME=VALUE of `array status`; RAID0 and a single disk omit those that they lack."""
    words = dict(word.split("=", 1) for word in line.split())
    members = {int(name[4:]): value for name, value in words.items() if name[:4] == "disk" and name[4:].isdigit()}
    known = {name: value for name, value in words.items() if name in Array.__struct_fields__ and value != "-"}
    return msgspec.convert({**known, "disks": members}, Array, strict=False)


@dataclass(frozen=True)
class Guest:
    """A virtual machine in its container, whose commands run in the guest, as root."""

    container: Container

    @property
    def name(self) -> str:
        return str(self.container.name)

    # Runs in its container: this distinguishes a guest that is not up yet from a Docker engine that does not answer.
    def is_ready(self) -> bool:
        """Return whether the agent answers."""
        try:
            return self.container.exec_run(["guest", "true"]).exit_code == 0
        except APIError:
            return False

    def wait_until_answers(self, seconds: float = BOOT_SECONDS) -> None:
        """Wait until the agent answers; LabError with the end of the console if the guest ended or did not come up."""
        self._wait(self.is_ready, "its agent", seconds)

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            clock.wait_until(lambda: condition() or not self.runs(), what, seconds)
        except LabError as error:
            raise self._trouble(f"waited {seconds:g} s and {what} did not answer", "a guest that boots") from error
        if not self.runs():
            raise self._trouble("the guest ended", "a guest that boots")

    def runs(self) -> bool:
        self.container.reload()
        return self.container.status == "running"

    def console(self) -> str:
        """Return the messages of the guest's kernel, its services and its server since it was first started."""
        return self.container.logs().decode(errors="replace")

    def remove(self) -> None:
        with suppress(NotFound):
            self.container.remove(force=True, v=True)

    def _trouble(self, found: str, expected: str) -> LabError:
        lines = self.console().strip().splitlines()
        # A panicking kernel prints the reason before its stack, and the stack may be longer than the lines shown.
        why = [line for line in lines[:-CONSOLE_LINES] if "Kernel panic" in line or "Out of memory" in line]
        last = "\n  ".join(why + lines[-CONSOLE_LINES:])
        return LabError(
            f"{self.name}: {found}. The end of its console:\n  {last}", expected, f"docker logs {self.name}"
        )

    def attempt(self, *command: str, stdin: bytes = b"", seconds: float = RUN_SECONDS) -> Answer:
        """Run a command in the guest, whatever its exit status; LabError when the guest does not answer."""
        try:
            done = subprocess.run(
                ["docker", "exec", "--interactive", self.name, "guest", *command],
                input=stdin,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise self._trouble(f"`{_short(command)}` did not end within {seconds:g} s", "an end") from error
        answer = Answer(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if answer.code == AGENT_SILENT or answer.err.startswith("Error response from daemon"):
            raise self._trouble(f"its agent does not answer ({answer.err.strip()})", "a guest that is up")
        return answer

    def run(self, *command: str, stdin: bytes = b"", seconds: float = RUN_SECONDS) -> str:
        """Return the output of a command in the guest; LabError with its last lines when it fails."""
        answer = self.attempt(*command, stdin=stdin, seconds=seconds)
        if answer.code:
            last = "\n  ".join((answer.err or answer.out).strip().splitlines()[-8:])
            raise LabError(
                f"`{_short(command)}` in {self.name} ended with {answer.code}:\n  {last}",
                "exit status 0",
                f"docker exec {self.name} guest dmesg",
            )
        return answer.out

    def put(self, path: str, content: bytes) -> None:
        """Write a file in the guest."""
        self.run("cp", "/dev/stdin", path, stdin=content)

    def array(self) -> Array:
        return parse_array(self.run("array", "status"))

    def health(self) -> Answer:
        """Check the machine's health; the output is one line."""
        return self.attempt("server", "health")

    def wait_until_healthy(self, seconds: float = BOOT_SECONDS) -> None:
        self._wait(lambda: self.is_ready() and self.health().code == 0, "its server", seconds)

    def stop(self) -> None:
        """End it cleanly: server, array, file systems; LabError when it had to be killed."""
        self.container.stop(timeout=STOP_SECONDS)
        code = self.container.wait(timeout=STOP_SECONDS)["StatusCode"]
        if code:
            raise self._trouble(f"it ended with {code}", "a clean end, 0")

    def power_cut(self) -> None:
        """End it at once, without what its kernel had not written. Its disks keep running: their power is separate."""
        self.container.kill("SIGKILL")
        self.container.wait(timeout=STOP_SECONDS)

    def start(self) -> None:
        """Start it again on its data."""
        self.container.start()


def _short(command: Sequence[str]) -> str:
    return " ".join(command)[:120]


def start(environment: dict[str, str]) -> Guest:
    """Start a machine of its own by user-mode Linux."""
    wanted = vm.container(f"test-{secrets.token_hex(4)}", "uml", environment)
    return Guest(engine.client().containers.run(detach=True, **wanted))
