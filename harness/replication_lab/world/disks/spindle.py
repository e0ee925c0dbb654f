"""The emulated disk "spindle" (images/spindle): the command that starts one, and its control socket."""

import re
from contextlib import suppress
from typing import TypeVar

import msgspec
from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.disk import Limits, check_size
from replication_lab.world import clock
from replication_lab.world.requests_made import SENDER

SWITCH = {"on": True, "off": False}
POWER_CUT_SECONDS, START_SECONDS = 10, 60
# What a disk writes into its container's log when it loses power.
LOST = re.compile(rb"spindle: power cut, (\d+) bytes")
# What it writes about each request but those that only read: who sent it, and the request.
ASKED = re.compile(r"spindle: (.+?) asked for (.+)")


class Settings(msgspec.Struct, frozen=True):
    """A spindle's settings now: microseconds of a request, bytes a second (0: no limit), bytes of the write cache."""

    read_us: int
    write_us: int
    flush_us: int
    bandwidth: int
    follow_us: int
    write_cache: bool
    cache_bytes: int


class Stats(msgspec.Struct, frozen=True):
    """A spindle's counters since its start. Rates are differences of two, by `clock_us`, its own clock.

    `errors` counts requests answered with EIO. `dirty_bytes` is the size of all blocks with unflushed data. `busy_us`
    is the time that the answered requests took; one that still waits is in none of the counters.
    """

    reads: int
    writes: int
    flushes: int
    errors: int
    read_bytes: int
    written_bytes: int
    dirty_bytes: int
    busy_us: int
    clock_us: int
    failed: bool


# Prepared at import: msgspec crashes (SIGSEGV) if several threads are the first to use a type at the same moment.
msgspec.json.Decoder(Settings)
msgspec.json.Decoder(Stats)


def settings_of(limits: Limits) -> dict[str, int | bool]:
    """Return the spindle's settings for a disk of these limits; a rate becomes the time of one request."""
    return {
        "read_us": _microseconds(limits.read_iops),
        "write_us": _microseconds(limits.write_iops),
        "flush_us": limits.flush_us,
        "bandwidth": limits.bandwidth or 0,
        "write_cache": limits.write_cache,
    }


def _microseconds(iops: int | None) -> int:
    return round(1_000_000 / iops) if iops else 0


def _rate(microseconds: int) -> int | None:
    return round(1_000_000 / microseconds) if microseconds else None


def kept(limits: Limits) -> Limits:
    """Return limits as a disk of them reports them: it has the time of a request in whole microseconds."""
    reads, writes = (_rate(_microseconds(iops)) for iops in (limits.read_iops, limits.write_iops))
    return msgspec.structs.replace(limits, read_iops=reads, write_iops=writes)


def arguments(limits: Limits, size: int) -> list[str]:
    """Return the command of a spindle's container: a disk of `size` bytes, created sparse if it has no image yet."""
    return [f"size={check_size(size)}", *_words(settings_of(limits))]


def _words(settings: dict[str, int | bool]) -> list[str]:
    spelled = {
        name: ("on" if value else "off") if isinstance(value, bool) else value for name, value in settings.items()
    }
    return [f"{name}={value}" for name, value in spelled.items()]


class Spindle:
    """The control socket of a running spindle, used by the client inside its container."""

    def __init__(self, container: Container):
        self.container = container

    def settings(self) -> Settings:
        return _decoded(self._exec("settings"), Settings)

    def set(self, **changes: int | bool) -> Settings:
        """Change settings at once, all of them or, with a LabError, none; return the new settings."""
        return _decoded(self._exec("set", *_words(changes)), Settings)

    def limit(self, limits: Limits) -> Settings:
        """Set these limits from the next request on."""
        return self.set(**settings_of(limits))

    def limits(self) -> Limits:
        """Return its current limits; the time of a request becomes a rate again."""
        now = self.settings()
        return Limits(
            read_iops=_rate(now.read_us),
            write_iops=_rate(now.write_us),
            bandwidth=now.bandwidth or None,
            flush_us=now.flush_us,
            write_cache=now.write_cache,
        )

    def stats(self) -> Stats:
        return _decoded(self._exec("stats"), Stats)

    def fail(self) -> None:
        """Make the disk answer every request with EIO, until it is healed."""
        self._exec("fail")

    def heal(self) -> None:
        self._exec("heal")

    def corrupt(self, offset: int) -> None:
        """Invert the 512 bytes of the sector around an offset, silently."""
        self._exec("corrupt", str(offset))

    def find(self, text: str) -> list[int]:
        """Return the byte offsets on the disk at which a text is stored; the write cache is not searched."""
        # grep reports wrong byte offsets in lines that end with a zero byte, and in a file with holes.
        search = "tr '\\0' '\\n' </disk/image | grep --text --byte-offset --only-matching --fixed-strings -e \"$1\""
        code, output = self._run("sh", "-c", search, "find", text)
        return [int(line.partition(b":")[0]) for line in output.splitlines() if code == 0]

    def exchange(self) -> None:
        """Replace the disk by an empty one of the same size and the same limits."""
        self.container.exec_run(["rm", "-f", "/disk/image"])
        self.container.restart(timeout=1)
        clock.wait_until(self._answers, f"container {self.container.name} to serve an empty disk", START_SECONDS)

    def _answers(self) -> bool:
        with suppress(LabError):
            return bool(self.settings())
        return False

    def power_cut(self) -> int:
        """Stop the disk and its container without flushing; return the size of the unflushed blocks, in bytes.

        A later start finds only the flushed data. LabError if the disk ends otherwise, or does not end.
        """
        self.stats()
        before = len(self._power_cuts())
        with suppress(APIError):
            # The answer may be lost with the container.
            self._run("spindle", "power-cut")
        clock.wait_until(self._has_ended, f"container {self.container.name} to exit", POWER_CUT_SECONDS)
        since = self._power_cuts()[before:]
        if not since:
            raise LabError(
                f"{self.container.name} ended, and not by a power cut",
                "the line `spindle: power cut` in its log",
                f"docker logs {self.container.name}",
            )
        return since[-1]

    def _power_cuts(self) -> list[int]:
        """Return the size of the unflushed blocks at each power cut so far, in bytes."""
        return [int(lost) for lost in LOST.findall(self.container.logs())]

    def _has_ended(self) -> bool:
        self.container.reload()
        return self.container.status == "exited"

    def _exec(self, *words: str) -> str:
        """Return the spindle's answer; LabError when it refuses or does not answer."""
        try:
            code, output = self._run("spindle", *words)
        except APIError as error:
            raise self._silent(error.explanation or str(error)) from error
        said = output.decode(errors="replace").strip()
        if code == 1:
            found, _, expected = said.removeprefix("spindle: error ").partition("; expected ")
            name = self.container.name
            raise LabError(f"{name} refused: {found}", expected, f"docker exec {name} spindle settings")
        if code:
            raise self._silent(said)
        return said

    def _run(self, *command: str) -> tuple[int | None, bytes]:
        done = self.container.exec_run(list(command), environment={"SPINDLE_BY": SENDER})
        return done.exit_code, bytes(done.output)  # type: ignore[arg-type]  # no stream was asked for

    def _silent(self, reason: str) -> LabError:
        name = self.container.name
        return LabError(f"the disk {name} does not answer: {reason}", "a running spindle", f"docker logs {name}")


Said = TypeVar("Said")


def _decoded(answer: str, into: type[Said]) -> Said:
    """Return the words of an answer, each NAME=VALUE, as an object of type `into`."""
    pairs = (word.split("=", 1) for word in answer.split())
    return msgspec.convert({name: SWITCH.get(value, value) for name, value in pairs}, into, strict=False)
