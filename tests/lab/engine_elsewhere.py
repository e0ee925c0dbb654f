"""Docker engines on other addresses: each in a network namespace of its own, reached by tcp:// from this machine.

`ip netns exec` would hide the mounts of control groups, which an engine needs; `nsenter --net` keeps them.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import docker
from replication_lab.world.clock import wait_until

SECONDS = 60
MISSING = ", ".join(
    [*(each for each in ("ip", "nsenter", "dockerd") if not shutil.which(each)), *(["root"] if os.geteuid() else [])]
)


@dataclass(frozen=True)
class EngineElsewhere:
    """An engine that a test started: its address for DOCKER_HOST, and those of its machine and of this one for it."""

    host: str
    machine: str
    folder: Path
    # The interface of this machine that leads there, and its address. The namespace there has the interface's name.
    device: str = ""
    neighbour: str = ""
    # The engine's process, the last of them; it is added to where the engine is started again.
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *command: str) -> None:
        """Start the engine by this command and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            running = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(running)

        def answers() -> bool:
            assert running.poll() is None, (self.folder / "log").read_text()[-2000:]
            try:
                return bool(self.client().ping())
            except docker.errors.DockerException:
                return False

        wait_until(answers, "the engine to answer", SECONDS)

    def stop(self) -> None:
        """End the engine, and its containers with it."""
        self.processes[-1].terminate()
        self.processes[-1].wait(SECONDS)

    def restart(self) -> None:
        """End the engine and start it again."""
        self.stop()
        self.start(*map(str, self.processes[-1].args))

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Break the network between the two machines within the block."""
        _run("ip", "link", "set", self.device, "down")
        try:
            yield
        finally:
            _run("ip", "link", "set", self.device, "up")

    @contextmanager
    def dropping(self, size: int) -> Iterator[None]:
        """Drop all packets of at least this many bytes that arrive there for containers, without an answer.

        AssertionError at the end of the block if none was dropped: then the network was as usual.
        """
        rule = ("DOCKER-USER", "-i", "eth0", "-m", "length", "--length", f"{size}:", "-j", "DROP")
        inside = ("nsenter", f"--net=/run/netns/{self.device}", "iptables", "-w")
        _run(*inside, "-I", *rule)
        try:
            yield
        finally:
            dropped = int(_run(*inside, "-v", "-x", "-n", "-L", "DOCKER-USER", "1").split()[0])
            _run(*inside, "-D", *rule)
        assert dropped, f"no packet of {size} bytes or more arrived at {self.host} for containers: nothing was dropped"

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(f"unix://{self.folder}/socket")

    def load(self, *images: str) -> None:
        """Copy images from this machine's engine."""
        if not images:
            return
        saved = subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE)
        subprocess.run(
            ["docker", "--host", f"unix://{self.folder}/socket", "load"],
            stdin=saved.stdout,
            check=True,
            capture_output=True,
            timeout=300,
        )
        assert saved.wait() == 0

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


def _run(*command: str) -> str:
    """Run a command; return what it printed."""
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout


@contextmanager
def engine_elsewhere(*images: str, with_tls: bool = False, program: str = "dockerd") -> Iterator[EngineElsewhere]:
    """Start an engine with these images in a namespace; at the end stop it and remove all of it.

    `with_tls` lets it take only clients with the certificate in its folder. `program` is another version of it.
    """
    name, number = f"lab-{secrets.token_hex(3)}", _free_number()
    there = f"10.77.{number}.2"
    with ExitStack() as stack:
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
        found = EngineElsewhere(f"tcp://{there}:2375", there, _in_memory(stack), name, f"10.77.{number}.1")
        options = _certified(found.folder, there) if with_tls else ()
        stack.enter_context(_engine(name, found.folder, found, number, *options, program=program))
        found.load(*images)
        yield found


def _certified(folder: Path, address: str) -> tuple[str, ...]:
    """Make an authority, and certificates of an engine at this address and of a client; return the engine's options."""
    new = ("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-batch")
    _run(*new, "-x509", "-subj", "/CN=ca", "-keyout", f"{folder}/ca-key.pem", "-out", f"{folder}/ca.pem")
    for name, extra in (("server", f"subjectAltName=IP:{address}"), ("client", "extendedKeyUsage=clientAuth")):
        made = ("-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca-key.pem", "-addext", extra)
        key, cert = (f"{folder}/{name}-{part}.pem" for part in ("key", "cert"))
        _run(*new, "-x509", "-subj", f"/CN={name}", *made, "-keyout", key, "-out", cert)
    files = (f"--tlscacert={folder}/ca.pem", f"--tlscert={folder}/server-cert.pem", f"--tlskey={folder}/server-key.pem")
    return ("--tlsverify", *files)


@contextmanager
def engines_together(count: int, *images: str) -> Iterator[list[EngineElsewhere]]:
    """Start engines, each in a namespace, on one network with this machine; the first has these images.

    The network is a bridge in a namespace of its own: packets on one of this machine would meet its engine's rules.
    """
    hub, number = f"hub-{secrets.token_hex(3)}", _free_number()
    with ExitStack() as stack:
        _run("ip", "netns", "add", hub)
        stack.callback(_run, "ip", "netns", "delete", hub)
        _run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", hub, "link", "set", "bridge", "up")
        _run("ip", "link", "add", hub, "type", "veth", "peer", "name", "here", "netns", hub)
        stack.callback(_run, "ip", "link", "delete", hub)
        _run("ip", "address", "add", f"10.77.{number}.1/24", "dev", hub)
        _run("ip", "link", "set", hub, "up")
        _run("ip", "-n", hub, "link", "set", "here", "master", "bridge", "up")
        found = []
        for each in range(count):
            name, there = f"{hub}-{each}", f"10.77.{number}.{each + 2}"
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name)
            _run("ip", "link", "add", f"to-{each}", "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", name)
            _run("ip", "-n", hub, "link", "set", f"to-{each}", "master", "bridge", "up")
            _run("ip", "-n", name, "address", "add", f"{there}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _run("ip", "-n", name, "link", "set", device, "up")
            _run("ip", "-n", name, "route", "add", "default", "via", f"10.77.{number}.1")
            engine = EngineElsewhere(f"tcp://{there}:2375", there, _in_memory(stack), name, f"10.77.{number}.1")
            stack.enter_context(_engine(name, engine.folder, engine, number + each))
            found.append(engine)
        found[0].load(*images)
        yield found


def _free_number() -> int:
    """Return the third part of addresses that no other test on this machine has."""
    used = subprocess.run(["ip", "-4", "-o", "address"], check=True, capture_output=True, text=True).stdout
    return secrets.choice([number for number in range(20, 220) if f" 10.77.{number}." not in used])


def _in_memory(stack: ExitStack) -> Path:
    """Return a folder in memory: images that are written to a disk would slow whatever runs beside this."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True))
    _run("mount", "-t", "tmpfs", "-o", "size=4g", "engine", folder)
    stack.callback(_run, "umount", folder)
    return Path(folder)


SSH_IMAGE = "ssh.example/machine:1"
SSH_PORT = 2222
SSH_MACHINE = """FROM replication-lab/base
RUN apt-get update -qq \\
    && apt-get install -y -qq --no-install-recommends openssh-server docker-cli && mkdir -p /run/sshd
"""
SSH_CONFIG = """Host {machine}
  IdentityFile {folder}/key
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking no
  ControlMaster auto
  ControlPath {folder}/control
  ControlPersist 10
"""


def build_ssh_image() -> None:
    """Build the image of a machine with an ssh server and Docker's client, by the local engine."""
    subprocess.run(
        ["docker", "build", "-q", "-t", SSH_IMAGE, "-"], input=SSH_MACHINE.encode(), check=True, capture_output=True
    )


@contextmanager
def reached_by_ssh(elsewhere: EngineElsewhere) -> Iterator[dict[str, str]]:
    """Start an ssh server on the machine of an engine that has its image; yield the environment that leads there.

    It has a key of its own. A program `ssh` at the front of PATH has settings of its own: ssh reads those of the user's
    account, wherever HOME is.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
        (folder / "config").write_text(SSH_CONFIG.format(machine=elsewhere.machine, folder=folder))
        program = folder / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
        program.chmod(0o755)
        key = (folder / "key.pub").read_text().strip()
        serve = f"mkdir -p ~/.ssh && echo '{key}' >~/.ssh/authorized_keys && exec /usr/sbin/sshd -D -e -p {SSH_PORT}"
        server = elsewhere.client().containers.run(
            SSH_IMAGE,
            ["sh", "-c", serve],
            detach=True,
            network_mode="host",
            volumes={str(elsewhere.folder / "socket"): {"bind": "/var/run/docker.sock"}},
        )
        environment = {
            "DOCKER_HOST": f"ssh://root@{elsewhere.machine}:{SSH_PORT}",
            "PATH": f"{program.parent}:{os.environ['PATH']}",
        }
        log_in = [str(program), "-p", str(SSH_PORT), f"root@{elsewhere.machine}"]

        def status_of(*words: str) -> int:
            quiet = subprocess.DEVNULL
            return subprocess.call([*log_in, *words], stdin=quiet, stdout=quiet, stderr=quiet, timeout=SECONDS)

        def answers() -> bool:
            return not status_of("docker", "version")

        try:
            wait_until(answers, "the ssh server to lead to the engine", SECONDS)
            yield environment
        finally:
            status_of("-O", "exit")
            server.remove(force=True)


@contextmanager
def _engine(
    namespace: str, folder: Path, found: EngineElsewhere, number: int, *options: str, program: str = "dockerd"
) -> Iterator[None]:
    command = (
        *("nsenter", f"--net=/run/netns/{namespace}", program),
        *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "pid"), "--host", found.host, "--host", f"unix://{folder}/socket"),
        *("--bip", f"10.88.{number}.1/24", "--default-address-pool", f"base=10.89.{number}.0/24,size=27"),
        *options,
    )
    try:
        found.start(*command)
        yield
    finally:
        found.stop()
        # An engine that ends leaves its namespaces' mounts.
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{folder}/")), reverse=True):
            subprocess.run(["umount", mount], check=False, capture_output=True)
