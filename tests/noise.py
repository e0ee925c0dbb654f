"""Noise in tests: other programs that use the CPUs, and measurements beside other tests, whose noise is ignored."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import psutil
from replication_lab.probes import noise


def ignoring_noise() -> AbstractContextManager[object]:
    """Return a block in which no machine is noisy."""
    nothing = noise.NoiseLimits(foreign=2.0, steal=2.0, disk=2.0, memory=2.0)
    return patch.multiple(noise, ALL_THE_TIME=nothing, A_SECOND=nothing)


@contextmanager
def other_programs(many: int = os.cpu_count() or 1) -> Iterator[None]:
    """Run so many programs within the block that keep a CPU busy each; one for each CPU by default."""
    with ExitStack() as stack:
        for _ in range(many):
            stack.enter_context(_another("-c", "while True: pass"))
        yield


@contextmanager
def _another(*arguments: str) -> Iterator[psutil.Process]:
    """Run Python within the block as a program of others: a child of this process would be the harness's."""
    command = ["sh", "-c", '"$@" >/dev/null 2>&1 & echo $!', "sh", sys.executable, *arguments]
    other = psutil.Process(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    try:
        yield other
    finally:
        other.kill()


WRITES = """
import os, sys
while True:
    with open(sys.argv[1], "wb") as file:
        for _ in range(8):
            file.write(bytes(1 << 20))
            file.flush()
            os.fsync(file.fileno())
"""


@contextmanager
def writing(path: Path) -> Iterator[psutil.Process]:
    """Run a program within the block that writes a file again and again, each MiB to the disk."""
    with _another("-c", WRITES, str(path)) as writer:
        yield writer
