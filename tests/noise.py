"""Noise in tests: other programs that use the CPUs, and measurements beside other tests, whose noise is ignored."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from replication_lab.probes import noise


def ignoring_noise() -> AbstractContextManager[object]:
    """Return a block in which no machine is noisy."""
    return patch.multiple(noise, FOREIGN_LIMIT=1.0, STEAL_LIMIT=1.0)


@contextmanager
def other_programs(many: int = os.cpu_count() or 1) -> Iterator[None]:
    """Run so many programs within the block that keep a CPU busy each; one for each CPU by default."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(many)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
