"""`docker compose up` for files of a lab, and what it waits for: that services are healthy, or cannot become it."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replication_lab.world import catalogue, clock
from replication_lab.world.docker import labels

# `docker compose up --wait` asks twice a second: a lab would wait a quarter of a second for nothing.
LOOK_SECONDS, LOOK_CLOSELY_SECONDS = 0.05, 0.5


@dataclass(frozen=True)
class Project:
    """The Compose files of one lab, and its settings."""

    name: str
    files: tuple[Path, ...]
    env_file: Path
    profiles: tuple[str, ...] = ()

    def up(self, is_lost: Callable[[], bool], services: Sequence[str] = ()) -> None:
        """Start services (all by default) and wait until each is healthy, or runs if it has no health check.

        `subprocess.CalledProcessError`, with what Compose said, if that fails or as soon as `is_lost` says so.
        """
        command = self._call("up", "--detach", *services)
        looked = clock.timer()
        while not self._is_healthy(services):
            if clock.timer() - looked >= LOOK_CLOSELY_SECONDS:
                looked = clock.timer()
                if is_lost():
                    raise subprocess.CalledProcessError(1, command, stderr=b"")
            clock.pause(LOOK_SECONDS)

    def make_again(self, service: str) -> None:
        """Make the container of a service again if its files have changed, without starting it; errors as of `up`."""
        self._call("up", "--no-start", "--no-deps", service)

    def _call(self, *words: str) -> list[str]:
        command = ["docker", "compose", *(word for file in self.files for word in ("-f", str(file)))]
        command += ["--env-file", str(self.env_file), *(word for name in self.profiles for word in ("--profile", name))]
        command += words
        subprocess.run(command, cwd=catalogue.ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        return command

    def _is_healthy(self, services: Sequence[str]) -> bool:
        found = labels.health(self.name)
        return bool(found) and all(
            said in ("healthy", "running") for name, said in found.items() if name in services or not services
        )
