"""The Docker engine of this machine: started if it is installed, and installed if none is.

The launcher starts it while the lab's libraries are still being installed, so this file uses Python's own only.
"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

from replication_lab.model.core.errors import LabError
from replication_lab.world.clock import wait_until
from replication_lab.world.installing import (
    APT_INSTALL,
    TRIXIE_PIN,
    TRIXIE_SOURCE,
    HostChange,
    allow,
    make,
    run_as_root,
)

SOCKET = Path("/var/run/docker.sock")
ANSWER_SECONDS, CONTEXT_SECONDS = 5, 20
# What TLS with a certificate of the client's needs, as Docker names the files.
CERTIFICATES = ("ca.pem", "cert.pem", "key.pem")
LOG = Path("/var/log/replication-lab-dockerd.log")
PID = Path("/var/run/replication-lab-dockerd.pid")

# The first release of Debian whose Docker packages are new enough.
TRIXIE = 13
# Debian 12's own engine is 20.10 and its Compose the obsolete v1; these of Debian 13 work with Debian 12's libc.
DEBIAN_PACKAGES = ("docker.io", "containerd", "docker-cli", "docker-compose", "docker-buildx")
UPDATE = ("apt-get", "update", "-q")
UBUNTU_PACKAGES = ("docker.io", "docker-compose-v2", "docker-buildx")


def provide() -> None:
    """Start the engine, or install one, unless one answers: another command may have started it in the meantime."""
    if answers():
        return
    missing = _missing()
    allow(missing)
    if missing.packages:
        make(missing)
    # Start dockerd: by systemd if it runs, else in a session of its own with its log in a file.
    if not _has_systemd():
        print("starting the Docker engine (no systemd here to do it)", file=sys.stderr, flush=True)
    run_as_root(_start_command())
    wait_until(answers, "the Docker engine to answer", 30, hint=f"tail {LOG}; ./lab doctor")


def answers() -> bool:
    """Return whether an engine listens on its usual socket; True also without permission, which is checked later."""
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(ANSWER_SECONDS)
            asked.connect(str(SOCKET))
            asked.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in asked.recv(64)
    except PermissionError:
        return True
    except OSError:
        return False


def elsewhere() -> str:
    """Return the endpoint of the user's Docker context (Docker Desktop, rootless); empty if it is the usual socket."""
    endpoint = of_context()
    return "" if endpoint == f"unix://{SOCKET}" else endpoint


def of_context(*name: str) -> str:
    """Return the endpoint of a Docker context, by default the user's; empty if there is none."""
    return _said("inspect", "--format", "{{.Endpoints.docker.Host}}", *name)


@cache
def certificates(endpoint: str) -> str:
    """Return the folder of ca.pem, cert.pem and key.pem for an endpoint: of the Docker context that names it.

    Empty if no context with all three has this endpoint.
    """
    names = _said("ls", "--quiet").split() if endpoint.startswith("tcp://") else []
    for each in json.loads(_said("inspect", *names) or "[]") if names else []:
        has = (each.get("TLSMaterial") or {}).get("docker") or []
        if each["Endpoints"]["docker"].get("Host") == endpoint and {*CERTIFICATES} <= {*has}:
            return os.path.join(each["Storage"]["TLSPath"], "docker")
    return ""


def _said(*words: str) -> str:
    """Return what a command about Docker contexts prints; empty if it fails."""
    command = ["docker", "context", *words]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=CONTEXT_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def _missing() -> HostChange:
    """Return what has to be installed and started here; LabError on a machine without apt."""
    start = "the Docker engine"
    if shutil.which("dockerd", path=_SBIN) is not None:
        return HostChange("a running Docker engine (installed, but not running)", [_start_command()], starts=start)
    if sys.platform != "linux" or not shutil.which("apt-get"):
        raise LabError(
            "no Docker engine on this machine, and no apt to install it",
            "Docker Engine 25 or newer with Compose 2.24.4 or newer",
            "install Docker Desktop or Docker Engine, then ./lab doctor",
        )
    why = "Docker Engine and Compose (they run the lab's servers; none is installed)"
    if platform.freedesktop_os_release().get("ID") == "debian":
        return _on_debian(why, start)
    return HostChange(why, [UPDATE, [*APT_INSTALL, *UBUNTU_PACKAGES]], UBUNTU_PACKAGES, starts=start)


def _on_debian(why: str, start: str) -> HostChange:
    packages = (*DEBIAN_PACKAGES, "iptables")
    if int(platform.freedesktop_os_release().get("VERSION_ID", "13")) >= TRIXIE:
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


def _has_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def _start_command() -> list[str]:
    if _has_systemd():
        return ["systemctl", "start", "docker"]
    dockerd = shutil.which("dockerd", path=_SBIN) or "dockerd"
    return ["sh", "-c", f"exec setsid {dockerd} --pidfile {PID} >>{LOG} 2>&1 </dev/null &"]
