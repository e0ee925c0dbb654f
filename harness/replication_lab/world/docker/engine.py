"""The Docker engine: found, started or installed. An installed engine is never changed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import psutil
from docker.errors import DockerException

from replication_lab.model.core.errors import LabError
from replication_lab.world import host, lock
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import compose_version
from replication_lab.world.docker.client import EngineClient
from replication_lab.world.installing import (
    APT_INSTALL,
    TRIXIE_PIN,
    TRIXIE_SOURCE,
    HostChange,
    allow,
    make,
    run_as_root,
)

NEEDED = (25, 0)
USUAL_ENDPOINT = "unix:///var/run/docker.sock"
LOG = Path("/var/log/replication-lab-dockerd.log")
PID = Path("/var/run/replication-lab-dockerd.pid")

# The first release of Debian whose Docker packages are new enough.
TRIXIE = 13
# Debian 12's own engine is 20.10 and its Compose the obsolete v1; these of Debian 13 work with Debian 12's libc.
DEBIAN_PACKAGES = ("docker.io", "containerd", "docker-cli", "docker-compose", "docker-buildx")
UBUNTU_PACKAGES = ("docker.io", "docker-compose-v2", "docker-buildx")


@cache
def client() -> EngineClient:
    """Return a client of the running engine; LabError if there is none, it is too old, or this user may not use it."""
    try:
        found = cast("EngineClient", EngineClient.from_env(timeout=120))
        version = found.version()
    except (DockerException, OSError, LabError) as error:
        raise _unreachable(error) from error
    _refuse_kind(version)
    if compose_version.is_older(version["Version"], NEEDED):
        raise LabError(
            f"the Docker engine is version {version['Version']}",
            f"{NEEDED[0]} or newer (health checks with start_interval); the lab never replaces an engine",
            "upgrade Docker with your package manager, then ./lab doctor",
        )
    return found


def _refuse_kind(version: dict[str, Any]) -> None:
    """Raise LabError for an engine that answers as Docker does and is none, or whose containers are Windows'."""
    names = [str(part.get("Name", "")) for part in version.get("Components") or []]
    if any(name.startswith("Podman") for name in names):
        raise LabError(
            f"the engine is Podman {version['Version']}",
            f"Docker Engine {NEEDED[0]} or newer: images are built by its BuildKit, labs found by its Compose",
            "docker context use default, or unset DOCKER_HOST; then ./lab doctor",
        )
    if version.get("Os", "linux") != "linux":
        raise LabError(
            f"the engine runs containers of {version['Os']}",
            "Linux containers",
            "switch the engine to Linux containers",
        )


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


def ensure() -> EngineClient:
    """Return a client of an engine that is new enough; start the installed engine, or install one, if needed."""
    compose_version.ask()
    _follow_context()
    if not _answers() and not os.environ.get("DOCKER_HOST"):
        with lock.held("engine"):
            _provide()
    found = client()
    compose_version.version()
    return found


def _provide() -> None:
    if _answers():
        # Another command has started it in the meantime.
        return
    missing = _missing()
    allow(missing)
    if missing.packages:
        make(missing)
    _start()


def is_running() -> bool:
    """Return whether an engine runs that this user may use."""
    try:
        with closing(EngineClient.from_env(timeout=5)) as found:
            return bool(found.ping())
    except (DockerException, OSError, LabError):
        return False


def stop() -> bool:
    """Stop the engine if the lab itself started it and no container runs on it; return whether it did."""
    if not PID.exists() or not _is_own(number := int(PID.read_text())) or _runs_containers():
        return False
    run_as_root(["kill", str(number)])
    wait_until(lambda: not psutil.pid_exists(number), "the Docker engine to stop", 30, hint=f"tail {LOG}")
    client.cache_clear()
    return True


def _is_own(number: int) -> bool:
    """Return whether the process of that number is the engine that the lab started: the number may be another's now."""
    with suppress(psutil.Error):
        return str(PID) in psutil.Process(number).cmdline()
    return False


def _runs_containers() -> bool:
    """Return whether a container runs: a lab that a test session keeps, or one of another command."""
    with suppress(LabError, DockerException):
        return bool(client().containers.list(sparse=True))
    return False


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
        with closing(EngineClient.from_env(timeout=5)) as found:
            found.ping()
    except (DockerException, OSError, LabError) as error:
        return "Permission" in str(error)
    return True


def _installed() -> bool:
    return shutil.which("dockerd", path=_SBIN) is not None


_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _missing() -> HostChange:
    """Return what has to be installed and started here; LabError on a machine without apt."""
    start = "the Docker engine"
    if _installed():
        return HostChange("a running Docker engine (installed, but not running)", [_start_command()], starts=start)
    if sys.platform != "linux" or not shutil.which("apt-get"):
        raise LabError(
            "no Docker engine on this machine, and no apt to install it",
            "Docker Engine 25 or newer with Compose 2.24 or newer",
            "install Docker Desktop or Docker Engine, then ./lab doctor",
        )
    why = "Docker Engine and Compose (they run the lab's servers; none is installed)"
    return _on_debian(why, start) if _release().get("ID") == "debian" else _on_ubuntu(why, start)


def _release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


UPDATE = ("apt-get", "update", "-q")


def _on_ubuntu(why: str, start: str) -> HostChange:
    return HostChange(why, [UPDATE, [*APT_INSTALL, *UBUNTU_PACKAGES]], UBUNTU_PACKAGES, starts=start)


def _on_debian(why: str, start: str) -> HostChange:
    packages = (*DEBIAN_PACKAGES, "iptables")
    if int(_release().get("VERSION_ID", "13")) >= TRIXIE:
        return HostChange(why, [UPDATE, [*APT_INSTALL, *packages]], packages, starts=start)
    script = Path(__file__).parent / "trixie-source.sh"
    files = (
        (TRIXIE_SOURCE, "Debian 13 as a source of packages, from this machine's own mirror"),
        (TRIXIE_PIN, "its priority, so that no other package is installed or upgraded from it"),
    )
    commands = [
        ["sh", str(script), TRIXIE_SOURCE, TRIXIE_PIN],
        UPDATE,
        [*APT_INSTALL, *(f"{name}/trixie" for name in DEBIAN_PACKAGES), "iptables"],
    ]
    return HostChange(why, commands, packages, files, start)


def _start() -> None:
    """Start dockerd: by systemd if it runs, else in a session of its own with its log in a file."""
    if not _has_systemd():
        print("starting the Docker engine (no systemd here to do it)", file=sys.stderr, flush=True)
    run_as_root(_start_command())
    wait_until(_answers, "the Docker engine to answer", 30, hint=f"tail {LOG}; ./lab doctor")


def _has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def _start_command() -> list[str]:
    if _has_systemd():
        return ["systemctl", "start", "docker"]
    dockerd = shutil.which("dockerd", path=_SBIN) or "dockerd"
    return ["sh", "-c", f"exec setsid {dockerd} --pidfile {PID} >>{LOG} 2>&1 </dev/null &"]


def _run_quietly(command: Sequence[str]) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
