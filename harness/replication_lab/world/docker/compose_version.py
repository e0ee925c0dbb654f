"""The version of Docker Compose: it takes 70 ms to tell, so it is asked while Python imports a command."""

import re
import subprocess
from functools import cache

from replication_lab.model.core.errors import LabError

NEEDED = (2, 24, 4)
COMMAND = ("docker", "compose", "version", "--short")
ANSWER_SECONDS = 20


@cache
def ask() -> "subprocess.Popen[str] | None":
    """Start the command once, without waiting for its answer; return None if it does not exist."""
    try:
        return subprocess.Popen(
            COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return None


@cache
def version() -> str:
    """Return the version; LabError if Compose is missing or older than the Compose files need."""
    answer = _answer()
    if not answer:
        # An engine may have been installed since, and Compose with it.
        ask.cache_clear()
        answer = _answer()
    if not answer:
        raise LabError(
            "docker compose is not installed",
            "Compose 2.24.4 or newer",
            "install the Compose plugin, then ./lab doctor",
        )
    if is_older(answer, NEEDED):
        raise LabError(
            f"docker compose is {answer}",
            "2.24.4 or newer (configs with content, `!override`); the lab never replaces it",
            "upgrade Docker with your package manager, then ./lab doctor",
        )
    return answer


def _answer() -> str:
    process = ask()
    if process is None:
        return ""
    try:
        said, _ = process.communicate(timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return ""
    return said.strip() if process.returncode == 0 else ""


def is_older(version: str, needed: tuple[int, ...]) -> bool:
    """Return whether a version of Docker's is older; False for one without numbers, such as that of an own build."""
    return () < numbers(version) < needed


def numbers(version: str) -> tuple[int, ...]:
    """Return the first two or three numbers of a version of Docker's; none if it does not begin with two."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(each) for each in found.groups() if each) if found else ()
