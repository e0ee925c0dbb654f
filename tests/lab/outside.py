"""A user outside the checkout: a wheel installed with its own dependencies, and folders in which commands are typed."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder
from replication_lab.model.core.command import LAUNCHER
from replication_lab.world import catalogue

SECONDS = 900
# The installer and what it brings.
OF_PIP = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
# What an environment of the tests says of the checkout and of the session.
LEFT_OUT = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "LAB_", "COV", "XDG_")


def built_wheel(folder: Path) -> Path:
    """Build the checkout's wheel, without a network; return its path in the folder."""
    return Path(next(WheelBuilder(str(catalogue.ROOT)).build(directory=str(folder))))


@dataclass(frozen=True)
class Typed:
    """A command that was typed: its line, what it printed, and how long it took."""

    line: str
    said: str
    status: int
    seconds: float


@dataclass
class Outside:
    """A user's folders under `root`: `env` with the installed wheel, `home`, and `work`, where commands are typed."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    wheel: Path = Path()
    all_typed: list[Typed] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in (self.home, self.work):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def python(self) -> Path:
        return self.root / "env" / "bin" / "python"

    @property
    def packages(self) -> Path:
        return next((self.root / "env" / "lib").glob("python3*/site-packages"))

    def install(self, extra: str = "") -> None:
        """Build the wheel from the checkout, and install it with its dependencies into an environment of its own.

        With them come those of an extra.
        """
        subprocess.run([sys.executable, "-m", "venv", str(self.root / "env")], check=True)
        self.wheel = built_wheel(self.root / "wheel")
        self.type(f"pip install -q '{self.wheel}{f'[{extra}]' if extra else ''}'")

    def variables(self) -> dict[str, str]:
        """Return an environment that knows nothing of the checkout, in which the installed commands are found first."""
        found = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        path = f"{self.root / 'env' / 'bin'}:{found['PATH']}"
        return {**found, "HOME": str(self.home), "PATH": path, **self.environment}

    def copy(self, folder: Path, name: str) -> Path:
        """Copy a folder of the tests into `work`, without what a run left in it."""
        ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
        return Path(shutil.copytree(folder, self.work / name, ignore=ignored))

    def type(self, line: str, folder: str = ".", ends: tuple[int, ...] = (0,)) -> str:
        """Type a line of shell in a folder of `work`; return what it printed, on both streams in their order."""
        began = time.monotonic()
        ended = subprocess.run(
            ["sh", "-c", line],
            cwd=self.work / folder,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        self.all_typed.append(Typed(line, ended.stdout, ended.returncode, time.monotonic() - began))
        assert ended.returncode in ends, f"{line} ended with {ended.returncode}\n{ended.stdout}"
        return ended.stdout

    def name_the_checkouts_command(self) -> list[str]:
        """Return each text that says ./lab: of what the commands printed, and of the files that they wrote."""
        printed = [f"{typed.line}: {_excerpt(typed.said)}" for typed in self.all_typed if LAUNCHER.search(typed.said)]
        files = [path for folder in (self.work, self.home) for path in folder.rglob("*") if _is_written(path)]
        texts = {path: path.read_bytes().decode(errors="replace") for path in files}
        return printed + [f"{path}: {_excerpt(text)}" for path, text in texts.items() if LAUNCHER.search(text)]

    def megabytes(self) -> dict[str, float]:
        """Return the size of each folder of the environment's packages in MB, as `du` counts it, without pip."""
        listed = subprocess.run(
            ["du", "-sk", "--", *map(str, self.packages.iterdir())], check=True, capture_output=True, text=True
        )
        rows = (line.split("\t") for line in listed.stdout.splitlines())
        found = {Path(path).name: int(kib) * 1024 / 1e6 for kib, path in rows}
        return {name: size for name, size in found.items() if not name.startswith(OF_PIP)}

    def seconds_of(self, *arguments: str, times: int = 5, timer: Callable[[], float] = time.perf_counter) -> float:
        """Return the shortest time that Python takes with these arguments, in seconds; the first one only compiles."""
        taken = []
        for _ in range(times + 1):
            began = timer()
            subprocess.run(
                [self.python, *arguments], cwd=self.work, env=self.variables(), check=True, capture_output=True
            )
            taken.append(timer() - began)
        return min(taken[1:])


def cpu_of_children() -> float:
    """Return the CPU seconds of the processes that were waited for: on a busy machine they tell more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _is_written(path: Path) -> bool:
    """Return whether a file is one of the lab's results or its state; others are copies of the tests' own files."""
    return path.is_file() and not path.is_symlink() and bool({"runs", "replication-lab"} & set(path.parts))


def _excerpt(text: str) -> str:
    found = LAUNCHER.search(text)
    assert found
    return " ".join(text[max(0, found.start() - 60) : found.end() + 60].split())
