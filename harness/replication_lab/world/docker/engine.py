"""The Docker engine: found, started or installed. An installed engine is never changed."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import docker
import psutil
from docker.errors import DockerException

from replication_lab.model.errors import LabError
from replication_lab.world import host, lock
from replication_lab.world.clock import wait_until

ENGINE_NEEDED, COMPOSE_NEEDED = (25, 0), (2, 24)
USUAL_ENDPOINT = "unix:///var/run/docker.sock"
LOG = Path("/var/log/replication-lab-dockerd.log")
PID = Path("/var/run/replication-lab-dockerd.pid")

# The first release of Debian whose Docker packages are new enough.
TRIXIE = 13
# Debian 12's own engine is 20.10 and its Compose the obsolete v1; these of Debian 13 work with Debian 12's libc.
DEBIAN_PACKAGES = ("docker.io", "containerd", "docker-cli", "docker-compose", "docker-buildx")
UBUNTU_PACKAGES = ("docker.io", "docker-compose-v2", "docker-buildx")


@cache
def client() -> docker.DockerClient:
    """Return a client of the running engine; LabError if there is none, it is too old, or this user may not use it."""
    try:
        found = docker.from_env(timeout=120)
        version = found.version()
    except (DockerException, OSError) as error:
        raise _unreachable(error) from error
    if _numbers(version["Version"]) < ENGINE_NEEDED:
        raise LabError(
            f"the Docker engine is version {version['Version']}",
            f"{ENGINE_NEEDED[0]} or newer (health checks with start_interval); the lab never replaces an engine",
            "upgrade Docker with your package manager, then ./lab doctor",
        )
    return found


def _unreachable(error: Exception) -> LabError:
    if "PermissionError" in repr(error) or "Permission denied" in str(error):
        return LabError(
            "permission denied on the Docker engine's socket",
            "a user in the group docker, or root",
            f"sudo usermod -aG docker {os.environ.get('USER', '$USER')}, log in again; or put sudo before the command",
        )
    return LabError(
        "the Docker engine does not answer",
        "a running engine, 25 or newer",
        "./lab up (installs and starts an engine if permitted)",
    )


@cache
def memory() -> int:
    """Return the bytes of memory of the machine that the engine runs on."""
    return client().info()["MemTotal"]


def processor() -> str:
    """Return the processor that the engine's containers run on, as Docker names it: amd64, arm64."""
    return client().version().get("Arch") or host.processor()


@cache
def compose_version() -> str:
    """Return the version of `docker compose`; LabError if it is missing or older than the Compose files need."""
    answer = _run_quietly(["docker", "compose", "version", "--short"])
    if answer is None:
        raise LabError(
            "docker compose is not installed", "Compose 2.24 or newer", "install the Compose plugin, then ./lab doctor"
        )
    if _numbers(answer) < COMPOSE_NEEDED:
        raise LabError(
            f"docker compose is {answer}",
            "2.24 or newer (configs with content, include); the lab never replaces it",
            "upgrade Docker with your package manager, then ./lab doctor",
        )
    return answer


def ensure() -> docker.DockerClient:
    """Return a client of an engine that is new enough; start the installed engine, or install one, if needed."""
    _follow_context()
    if not _answers() and not os.environ.get("DOCKER_HOST"):
        with lock.held("engine"):
            _provide()
    found = client()
    compose_version()
    return found


def _provide() -> None:
    if _answers():
        # Another command has started it in the meantime.
        return
    if not _installed():
        _install()
    _start()


def is_running() -> bool:
    """Return whether an engine runs that this user may use."""
    try:
        return bool(docker.from_env(timeout=5).ping())
    except (DockerException, OSError):
        return False


def stop() -> bool:
    """Stop the engine if the lab itself started it; return whether it did."""
    if not PID.exists():
        return False
    number = int(PID.read_text())
    run_as_root(["kill", str(number)])
    wait_until(lambda: not psutil.pid_exists(number), "the end of the Docker engine", 30, hint=f"tail {LOG}")
    client.cache_clear()
    return True


def _follow_context() -> None:
    """Use the engine of the user's Docker context (Docker Desktop, rootless) if the usual socket has none."""
    if os.environ.get("DOCKER_HOST") or _answers():
        return
    endpoint = _run_quietly(["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"])
    if endpoint and endpoint != USUAL_ENDPOINT:
        os.environ["DOCKER_HOST"] = endpoint


def _answers() -> bool:
    """Return whether an engine listens on its socket; True also without permission, which is checked later."""
    try:
        docker.from_env(timeout=5).ping()
    except (DockerException, OSError) as error:
        return "Permission" in str(error)
    return True


def _installed() -> bool:
    return shutil.which("dockerd", path=_SBIN) is not None


_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _install() -> None:
    if sys.platform != "linux" or not shutil.which("apt-get"):
        raise LabError(
            "no Docker engine on this machine, and no apt to install it",
            "Docker Engine 25 or newer with Compose 2.24 or newer",
            "install Docker Desktop or Docker Engine, then ./lab doctor",
        )
    commands = _debian_commands() if _release().get("ID") == "debian" else _ubuntu_commands()
    allow_install("Docker Engine and Compose (they run the lab's servers; none is installed)", commands)
    for command in commands:
        run_as_root(command)


def _release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def _ubuntu_commands() -> list[list[str]]:
    return [["apt-get", "update", "-q"], [*APT_INSTALL, *UBUNTU_PACKAGES]]


APT_INSTALL = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "--no-install-recommends")
TRIXIE_SOURCE = "/etc/apt/sources.list.d/replication-lab-trixie.sources"
TRIXIE_PIN = "/etc/apt/preferences.d/replication-lab-trixie"


def _debian_commands() -> list[list[str]]:
    if int(_release().get("VERSION_ID", "13")) >= TRIXIE:
        return [["apt-get", "update", "-q"], [*APT_INSTALL, *DEBIAN_PACKAGES, "iptables"]]
    script = Path(__file__).parent / "trixie-source.sh"
    return [
        ["sh", str(script), TRIXIE_SOURCE, TRIXIE_PIN],
        ["apt-get", "update", "-q"],
        [*APT_INSTALL, *(f"{name}/trixie" for name in DEBIAN_PACKAGES), "iptables"],
    ]


def allow_install(what: str, commands: Sequence[Sequence[str]]) -> None:
    """Print what will be installed; LabError with the commands if LAB_INSTALL=no."""
    by_hand = "\n  ".join(" ".join(["sudo", *command] if os.geteuid() else command) for command in commands)
    if os.environ.get("LAB_INSTALL") == "no":
        raise LabError(
            f"missing: {what}",
            "an installed package, or LAB_INSTALL unset to let the lab install it",
            f"by hand:\n  {by_hand}",
        )
    print(f"installing {what}", file=sys.stderr, flush=True)


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


def _start() -> None:
    """Start dockerd: by systemd if it runs, else in a session of its own with its log in a file."""
    if Path("/run/systemd/system").is_dir():
        run_as_root(["systemctl", "start", "docker"])
    else:
        dockerd = shutil.which("dockerd", path=_SBIN) or "dockerd"
        script = f"exec setsid {dockerd} --pidfile {PID} >>{LOG} 2>&1 </dev/null &"
        print("starting the Docker engine (no systemd here to do it)", file=sys.stderr, flush=True)
        run_as_root(["sh", "-c", script])
    wait_until(_answers, "an answer of the Docker engine", 30, hint=f"tail {LOG}; ./lab doctor")


def _run_quietly(command: Sequence[str]) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _numbers(version: str) -> tuple[int, int]:
    major, minor, *_ = version.lstrip("v").split("+")[0].split("-")[0].split(".")
    return int(major), int(minor)
