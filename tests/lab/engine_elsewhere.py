"""A Docker engine on another address: in a network namespace of its own, reached by tcp:// from this machine.

`ip netns exec` would hide the mounts of control groups, which an engine needs; `nsenter --net` keeps them.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
from replication_lab.world.clock import wait_until

SECONDS = 60
MISSING = ", ".join(
    [*(each for each in ("ip", "nsenter", "dockerd") if not shutil.which(each)), *(["root"] if os.geteuid() else [])]
)


@dataclass(frozen=True)
class EngineElsewhere:
    """An engine that a test started: its address for DOCKER_HOST, and that of its machine."""

    host: str
    machine: str

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(self.host)

    def things(self) -> list[str]:
        """Return the names of its containers, volumes and networks, but for those that each engine has."""
        client = self.client()
        networks = {each.name for each in client.networks.list()} - {"bridge", "host", "none"}
        return sorted(
            [
                *(each.name for each in client.containers.list(all=True, ignore_removed=True)),
                *(each.name for each in client.volumes.list()),
                *networks,
            ]
        )


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)


@contextmanager
def engine_elsewhere(*images: str) -> Iterator[EngineElsewhere]:
    """Start an engine with these images in a namespace; at the end stop it and remove all of it."""
    name, number = f"lab-{secrets.token_hex(3)}", secrets.randbelow(200) + 20
    there = f"10.77.{number}.2"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True)))
        _run("ip", "netns", "add", name)
        stack.callback(_run, "ip", "netns", "delete", name)
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        stack.callback(_run, "ip", "link", "delete", name)
        _run("ip", "address", "add", f"10.77.{number}.1/30", "dev", name)
        _run("ip", "link", "set", name, "up")
        inside = ("ip", "-n", name)
        _run(*inside, "address", "add", f"{there}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run(*inside, "link", "set", device, "up")
        _run(*inside, "route", "add", "default", "via", f"10.77.{number}.1")
        # In memory: images that are written to a disk would slow whatever runs beside this.
        _run("mount", "-t", "tmpfs", "-o", "size=4g", "engine", str(folder))
        stack.callback(_run, "umount", str(folder))
        found = EngineElsewhere(f"tcp://{there}:2375", there)
        stack.enter_context(_engine(name, folder, found, number))
        saved = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "--host", found.host, "load"], stdin=saved.stdout, check=True, capture_output=True, timeout=300
        )
        assert saved.wait() == 0
        yield found


@contextmanager
def _engine(namespace: str, folder: Path, found: EngineElsewhere, number: int) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        command = (
            *("nsenter", f"--net=/run/netns/{namespace}", "dockerd"),
            *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
            *("--pidfile", str(folder / "pid"), "--host", found.host),
            *("--bip", f"10.88.{number}.1/24", "--default-address-pool", f"base=10.89.{number}.0/24,size=27"),
        )
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:

        def answers() -> bool:
            assert running.poll() is None, (folder / "log").read_text()[-2000:]
            try:
                return bool(found.client().ping())
            except docker.errors.DockerException:
                return False

        wait_until(answers, "the engine to answer", SECONDS)
        yield
    finally:
        running.terminate()
        running.wait(SECONDS)
        # An engine that ends leaves its namespaces' mounts.
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{folder}/")), reverse=True):
            subprocess.run(["umount", mount], check=False, capture_output=True)
