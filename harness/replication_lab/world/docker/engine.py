"""The Docker engine that the lab uses: found, and its version checked. An installed engine is never changed."""

import os
from contextlib import closing, suppress
from functools import cache
from typing import Any, cast

import psutil
from docker.errors import DockerException

from replication_lab.model.core.errors import LabError
from replication_lab.world import host, lock
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import by_ssh, compose_version, own_engine
from replication_lab.world.docker.client import EngineClient
from replication_lab.world.installing import run_as_root

NEEDED = (25, 0)
# How long a request may take, and the first one to another site.
ANSWER_SECONDS, SITE_SECONDS = 120, 5


@cache
def client() -> EngineClient:
    """Return a client of the running engine; LabError if there is none, it is too old, or this user may not use it."""
    try:
        found = cast("EngineClient", EngineClient.from_env(timeout=ANSWER_SECONDS, environment=by_ssh.environment()))
        version = found.version()
    except (DockerException, OSError, LabError) as error:
        raise _unreachable(error) from error
    _refuse_unfit(version)
    return found


@cache
def of_site(endpoint: str) -> EngineClient:
    """Return a client of the engine of another site; LabError if it is silent for SITE_SECONDS, or is too old."""
    try:
        environment = by_ssh.environment(endpoint)
        found = cast("EngineClient", EngineClient.from_env(timeout=SITE_SECONDS, environment=environment))
        found.api.site = endpoint
        version = found.version()
    except (DockerException, OSError, LabError) as error:
        raise LabError(
            f"the site {endpoint} does not answer",
            "a running Docker engine that this user may use",
            f"DOCKER_HOST={endpoint} docker version",
        ) from error
    _refuse_unfit(version, f" of the site {endpoint}")
    found.api.timeout = ANSWER_SECONDS
    return found


def endpoint_of(text: str) -> str:
    """Return the endpoint that a text is, or that of the Docker context of that name; LabError if there is none."""
    found = text if "://" in text else own_engine.of_context("--", text)
    if not found:
        raise LabError(
            f"{text} is neither an endpoint nor a Docker context",
            "ssh://USER@HOST, tcp://HOST:PORT, or the name of a context",
            "docker context ls",
        )
    return found


def command_for(site: str) -> list[str]:
    """Return the first words of a command of Docker's for the engine of a site, empty for the command's own."""
    folder = own_engine.certificates(site)
    files = zip(("--tlscacert", "--tlscert", "--tlskey"), own_engine.CERTIFICATES, strict=True)
    tls = ["--tlsverify", *(f"{option}={folder}/{file}" for option, file in files)] if folder else []
    return ["docker", *(["--host", site, *tls] if site else [])]


def _refuse_unfit(version: dict[str, Any], whose: str = "") -> None:
    """Raise LabError for an engine that is not Docker's and answers as it does, that runs no Linux, or is too old."""
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
    if compose_version.is_older(version["Version"], NEEDED):
        raise LabError(
            f"the Docker engine{whose} is version {version['Version']}",
            f"{NEEDED[0]} or newer (health checks with start_interval); the lab never replaces an engine",
            "upgrade Docker with your package manager, then ./lab doctor",
        )


def _unreachable(error: Exception) -> LabError:
    if "PermissionError" in repr(error) or "Permission denied" in str(error):
        return LabError(
            "permission denied on the Docker engine's socket",
            "a user in the group docker, or root",
            f"sudo usermod -aG docker {os.environ.get('USER', '$USER')}, log in again; or put sudo before the command",
        )
    if by_ssh.host():
        return LabError(
            f"the Docker engine at {by_ssh.host()} does not answer",
            "an ssh login without a question, as a user with the rights to use Docker there",
            f"{' '.join(by_ssh.command(by_ssh.host())[: -len(by_ssh.DIAL)])} docker version",
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
    if not os.environ.get("DOCKER_HOST") and not own_engine.answers():
        if endpoint := own_engine.elsewhere():
            os.environ.update({"DOCKER_HOST": endpoint, **by_ssh.with_tls(endpoint)})
        else:
            with lock.held("engine"):
                own_engine.provide()
    found = client()
    compose_version.version()
    return found


def is_running() -> bool:
    """Return whether an engine runs that this user may use."""
    with suppress(DockerException, OSError, LabError):
        with closing(EngineClient.from_env(timeout=5, environment=by_ssh.environment())) as found:
            return bool(found.ping())
    return False


def stop() -> bool:
    """Stop the engine if the lab itself started it and no container runs on it; return whether it did."""
    if not own_engine.PID.exists() or not _is_own(number := int(own_engine.PID.read_text())) or _runs_containers():
        return False
    run_as_root(["kill", str(number)])
    wait_until(lambda: not psutil.pid_exists(number), "the Docker engine to stop", 30, hint=f"tail {own_engine.LOG}")
    client.cache_clear()
    return True


def _is_own(number: int) -> bool:
    """Return whether the process of that number is the engine that the lab started: the number may be another's now."""
    with suppress(psutil.Error):
        return str(own_engine.PID) in psutil.Process(number).cmdline()
    return False


def _runs_containers() -> bool:
    """Return whether a container runs: a lab that a test session keeps, or one of another command."""
    with suppress(LabError, DockerException):
        return bool(client().containers.list(sparse=True))
    return False
