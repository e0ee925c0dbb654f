"""Compose projects of users for the tests of `lab attach`, and what is read of them without the lab."""

import json
import os
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replication_lab.world.docker import attachments, compose_call, engine, project

SOURCES = Path(__file__).parent
PROJECTS = SOURCES / "attached"
DATABASE, SHOP = "vendor.example/database:1", "vendor.example/shop:1"
SITE, HARDENED = "vendor.example/site:1", "vendor.example/hardened:1"
# The lab's own MySQL follows the vendors' contract, too.
ENVIRONMENT = {
    "DB_IMAGE": DATABASE,
    "SHOP_IMAGE": SHOP,
    "SITE_IMAGE": SITE,
    "HARDENED_IMAGE": HARDENED,
    "MYSQL_IMAGE": "replication-lab/mysql-8.0",
    "KEYRING_IMAGE": "replication-lab/mysql",
    "PROXY_IMAGE": "replication-lab/haproxy",
}
PROBE = "curl -fsS http://localhost:8080/health"


def build() -> None:
    """Build the images of the projects; a second time it takes a moment."""
    _build((DATABASE, SOURCES / "vendor"), (SHOP, PROJECTS / "shop" / "app"))


def build_for_public_projects() -> None:
    """Build the site in PHP and the hardened server, too."""
    build()
    _build((SITE, SOURCES / "vendor_site"), (HARDENED, SOURCES / "vendor_hardened"))


def build_ryuk(image: str) -> None:
    """Build the program that stands for Testcontainers' Ryuk."""
    _build((image, SOURCES / "vendor_ryuk"))


def _build(*images: tuple[str, Path]) -> None:
    for image, folder in images:
        subprocess.run(
            ["docker", "buildx", "build", "--load", "-q", "-t", image, folder], check=True, capture_output=True
        )


def compose(folder: str | Path, project: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run `docker compose` as the user of a project would."""
    return _compose(PROJECTS / folder, project, *command)


def _compose(folder: Path, project: str, *command: str) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        ["docker", "compose", "--ansi", "never", "--project-name", project, *command],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended


@contextmanager
def running(folder: str | Path, project: str) -> Iterator[None]:
    """Start a project for the block, and remove all of it at the end, whatever is attached to it."""
    volumes: set[str] = set()
    try:
        compose(folder, project, "up", "--detach", "--wait")
        volumes = volumes_of(project)
        yield
    finally:
        remove(project, PROJECTS / folder, volumes)


def remove(project: str, folder: Path, volumes: Collection[str] = ()) -> None:
    """Remove all of a project, whatever is attached to it, and these volumes that it had."""
    volumes = {*volumes, *volumes_of(project)}
    # A consumer that was recreated for a link would keep Compose from stopping it without its proxy.
    attachments.restore(project)
    _compose(folder, project, "--profile", "*", "down", "--volumes", "--timeout", "1")
    # Compose forgets that a volume had no name once it has recreated the container.
    for volume in engine.client().volumes.list():
        if volume.name in volumes:
            volume.remove()


def volumes_of(project: str) -> set[str]:
    """Return the names of the volumes that a project's containers use."""
    filters = {"label": f"com.docker.compose.project={project}"}
    found = engine.client().containers.list(all=True, filters=filters, ignore_removed=True)
    return {mount["Name"] for each in found for mount in each.attrs["Mounts"] if mount["Type"] == "volume"}


def inside(container: str, *command: str) -> str:
    """Return the output of a command in a container; an error if it fails."""
    return subprocess.run(["docker", "exec", container, *command], capture_output=True, text=True, check=True).stdout


def is_up(container: str) -> bool:
    """Return whether a container is healthy by its own health check."""
    return bool(engine.client().containers.get(container).attrs["State"]["Health"]["Status"] == "healthy")


def seconds_of_request(container: str) -> float:
    """Return the seconds of the shortest of six requests, for each of which the shop asks its database.

    A busy machine lengthens a request, and the first one may open a connection.
    """
    said = inside(
        container, "curl", "-fsS", "-o", "/dev/null", "-w", "%{time_total}\\n", "http://localhost:8080/health?[1-6]"
    )
    return min(map(float, said.split()))


def settings(project: str) -> dict[str, list[object]]:
    """Return each container's image, hash and settings, in the order of its service's containers."""
    found = compose_call.containers(project)
    return {
        service: [(one.attrs["Image"], one.labels[compose_call.HASH], compose_call.settings(one)) for one in containers]
        for service, containers in found.items()
    }


def options(folder: str | Path, name: str, *others: str) -> tuple[str, ...]:
    """Return the arguments of `lab attach` for a project of a folder."""
    (file,) = (PROJECTS / folder).glob("*compose.y*ml")
    return ("attach", "-f", str(file), "-p", name, *others, "--yes")


def query(name: str, service: str, password: str, sql: str) -> str:
    """Return what a client in a server's container prints, without the lab."""
    program = 'exec "$(command -v mariadb || command -v mysql)" -uroot -p"$0" -Ee "$1"'
    return inside(f"{name}-{service}-1", "sh", "-c", program, password, sql)


def next_command(printed: str) -> str:
    """Return the command of the last `next:` that was printed."""
    (*_, last) = (line.removeprefix("next: ") for line in printed.splitlines() if line.startswith("next: "))
    return last


def ask(name: str, service: str = "app") -> str:
    """Let an application open its connections, and return its answer."""
    return inside(f"{name}-{service}-1", *PROBE.split())


def drilled(command: Any, name: str, *others: str) -> tuple[int, str]:
    """Return how drills on an attached project ended: the exit status and what was printed."""
    answer = command("drill", "--lab", name, *others)
    return answer.returncode, answer.stdout + answer.stderr


def nodes(command: Any, name: str) -> dict[str, str]:
    """Return what each node of an attached project says of its replication, by `lab status`."""
    return {
        node["name"]: node["replication"]
        for node in json.loads(command("status", "--json", "--lab", name).stdout)[0]["nodes"]
    }


def restored(
    command: Any,
    folder: str | Path,
    name: str,
    before: dict[str, list[object]],
    planned: Sequence[str] = (),
    by_id: str = "",
) -> str:
    """Detach, compare the project with what it was, and return what was printed.

    `planned` is what `docker compose up` would have changed before. `by_id` is a service that names a consumer's
    container by its ID: Compose will recreate it.
    """
    ended = command("detach", "--lab", name)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert settings(name) == before
    changed = [line for line in changed_by_up(folder, name) if not by_id or f"-{by_id}-" not in line]
    assert changed == list(planned), changed
    assert name not in project.all_labs()
    return ended.stdout


def changed_by_up(folder: str | Path, project: str) -> list[str]:
    """Return the lines of a dry run of `docker compose up` that say that something would change."""
    said = compose(folder, project, "--dry-run", "up", "--detach").stderr
    return [line for line in said.splitlines() if "Recreate" in line or "Creat" in line or "orphan" in line]


def described(text: str) -> dict[str, dict]:
    """Return the links of `lab status --json` by name."""
    return {link["name"]: link for link in json.loads(text)[0]["links"]}
