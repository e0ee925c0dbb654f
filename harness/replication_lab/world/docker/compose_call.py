"""`docker compose` for a project that the lab did not write: its files resolved, its containers, `up`."""

import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import ComposeCall
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import labels
from replication_lab.world.docker.client import UNANSWERED, EngineGone
from replication_lab.world.docker.labels import HASH
from replication_lab.world.signals import signals_deferred

ONE_OFF = "com.docker.compose.oneoff"
# The label in which Compose notes the container that one has replaced.
OWN_LABELS = ("com.docker.compose.replace",)
# Mounts are compared by what they lead to: a recreated container names the volume of the one before, and Compose names
# the container of `volumes_from` by its ID, which is new when that was recreated, too.
OWN_PARTS = ("ContainerIDFile", "Binds", "Mounts", "VolumesFrom")
VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
PASSED_ON = re.compile(r"^\s+([A-Za-z_][A-Za-z0-9_]*): null$", re.MULTILINE)
CHANGES = re.compile(r"Container (\S+)\s+(?:Recreate|Creating)\b")
# Variables that change which files and which engine Compose uses.
OF_COMPOSE = ("COMPOSE_", "DOCKER_")


# The variables that files use, with their values at one moment; None for one that was not set.
Variables = Mapping[str, str | None]


def run(
    options: Sequence[str], command: Sequence[str], environment: Variables | None = None, errors: bool = False
) -> str:
    """Return the output of a `docker compose` command, with `errors` that to standard error; LabError if it fails.

    `environment` are the variables that the command sees in place of this process's.
    """
    asked = ["docker", "compose", "--ansi", "never", *options, *command]
    # In a session of its own: a Ctrl-C at the terminal reaches this process only, which then restores the project.
    done = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(environment),
        start_new_session=True,
    )
    if any(each in done.stderr for each in UNANSWERED):
        raise EngineGone(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        last = "\n  ".join(done.stderr.strip().splitlines()[-6:])
        raise LabError(
            f"`docker compose {' '.join(command)}` ended with status {done.returncode}:\n  {last}",
            "exit status 0",
            shlex.join(["docker", "compose", *options, *command]),
        )
    return done.stderr if errors else done.stdout


def _environment(given: Variables | None) -> dict[str, str]:
    if given is None:
        return dict(os.environ)
    others = {name: value for name, value in os.environ.items() if not name.startswith(OF_COMPOSE)}
    return {name: value for name, value in {**others, **given}.items() if value is not None}


def document(options: Sequence[str]) -> dict[str, Any]:
    """Return the project as Compose resolves its files."""
    return json.loads(run(options, ["config", "--format", "json"]))


def used_variables(options: Sequence[str]) -> dict[str, str | None]:
    """Return the variables that the files use, as they are now, to resolve the files in the same way later."""
    text = run(options, ["config", "--no-interpolate"])
    names = {*VARIABLE.findall(text), *PASSED_ON.findall(text)}
    names |= {name for name in os.environ if name.startswith(OF_COMPOSE)}
    return {name: os.environ.get(name) for name in sorted(names)}


def containers(project: str) -> dict[str, list[Container]]:
    """Return a project's containers by service, in the order of their numbers; not those of `docker compose run`."""
    found: dict[str, list[Container]] = {}
    for container in labels.listed(HASH, f"{labels.PROJECT}={project}"):
        if container.labels.get(ONE_OFF, "").lower() != "true" and labels.SERVICE in container.labels:
            found.setdefault(container.labels[labels.SERVICE], []).append(container)
    for each in found.values():
        each.sort(key=lambda container: container.labels.get("com.docker.compose.container-number", ""))
    return found


def processes(container: Container) -> tuple[str, ...]:
    """Return the command lines of a container's processes; none if it does not run, or the engine cannot list them."""
    if container.status == "running":
        with suppress(APIError):
            rows = container.top(ps_args="-eo pid,args")["Processes"] or []
            return tuple(" ".join(row[1:]) for row in rows)
    return ()


def would_change(call: ComposeCall, counts: Mapping[str, int], found: Mapping[str, Sequence[Container]]) -> list[str]:
    """Return the services that Compose would create or recreate now, if these were asked for as they are.

    Compose is asked by a dry run: its hash of a service depends on which others are asked for at the same time.
    """
    said = run(["--dry-run", *call.options], _create(counts), errors=True)
    changed = set(CHANGES.findall(said))
    known = {str(container.name): service for service, each in found.items() for container in each}
    return sorted({known.get(name, name) for name in changed})


def settings(container: Container) -> dict[str, str]:
    """Return a digest of each part of a container's settings that its recreation has to keep."""
    attrs = container.attrs
    config = {key: value for key, value in attrs["Config"].items() if key not in ("Hostname", "Labels")}
    own = {str(container.id)[:12], str(container.name)}
    networks = {
        name: [sorted(set(one.get("Aliases") or ()) - own), sorted(one.get("Links") or ()), one.get("IPAMConfig")]
        for name, one in attrs["NetworkSettings"]["Networks"].items()
    }
    mounts = sorted((one["Destination"], one.get("Name") or one.get("Source")) for one in attrs.get("Mounts", []))
    # Compose writes what a service depends on in any order.
    labels_of = {key: sorted(value.split(",")) for key, value in container.labels.items() if key not in OWN_LABELS}
    # Limits, capabilities, hosts, devices and the like are sets: Compose writes them in any order.
    host = {key: _as_set(value) for key, value in attrs["HostConfig"].items() if key not in OWN_PARTS}
    parts = {
        "environment": sorted(config.pop("Env") or []),
        "program": config,
        "limits and ports": host,
        "volumes": mounts,
    }
    parts |= {"networks": networks, "labels": labels_of}
    return {part: hashlib.sha256(repr(_ordered(value)).encode()).hexdigest()[:16] for part, value in parts.items()}


def _as_set(value: Any) -> Any:
    """Return lists, also those within, in an order of their own."""
    if isinstance(value, dict):
        return {key: _as_set(each) for key, each in value.items()}
    return sorted(map(_as_set, value), key=lambda each: repr(_ordered(each))) if isinstance(value, list) else value


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((key, _ordered(each)) for key, each in value.items())
    return [_ordered(each) for each in value] if isinstance(value, (list, tuple)) else value


def _create(counts: Mapping[str, int]) -> list[str]:
    scaled = [part for service, count in counts.items() for part in ("--scale", f"{service}={count}")]
    return ["up", "--no-start", "--no-build", "--pull", "never", *scaled, *counts]


def up(
    call: ComposeCall, counts: Mapping[str, int], override: Path | None = None, environment: Variables | None = None
) -> None:
    """Create or recreate these services as the files say, or also as the override file says, and start them.

    `counts` are the numbers of containers of the services; nothing is built, and no image is pulled. The containers
    are started here: Compose would also start what they depend on, such as a migration that has ended. A container that
    was stopped stays so. An interruption takes effect after the command: one that ended halfway would leave two
    containers of one name.
    """
    options = [*call.options, *(["--file", str(override)] if override else [])]
    with signals_deferred():
        stopped = {one.name for each in containers(call.project).values() for one in each if one.status == "exited"}
        run(options, _create(counts), environment)
        for service, found in containers(call.project).items():
            for container in found:
                if service in counts and container.name not in stopped and container.status != "running":
                    container.start()


def wait_for_others(override: Path) -> None:
    """Wait until no `docker compose` of a killed command uses this override file any more."""
    wait_until(
        lambda: all(str(override) not in (each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])),
        f"the `docker compose` that uses {override} to end",
    )
