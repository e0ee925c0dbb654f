"""The version of Docker Compose: it takes 70 ms to tell, so it is asked while Python imports a command."""

import subprocess
from functools import cache

from replication_lab.model.errors import LabError

NEEDED = (2, 24)
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
            "docker compose is not installed", "Compose 2.24 or newer", "install the Compose plugin, then ./lab doctor"
        )
    if numbers(answer) < NEEDED:
        raise LabError(
            f"docker compose is {answer}",
            "2.24 or newer (configs with content, include); the lab never replaces it",
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


def numbers(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version of Docker's."""
    major, minor, *_ = version.lstrip("v").split("+")[0].split("-")[0].split(".")
    return int(major), int(minor)
