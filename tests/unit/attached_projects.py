"""Compose projects for the unit tests of `lab attach`: a document as Compose resolves it, and containers."""

from dataclasses import replace
from typing import Any

from replication_lab.attach.compose_project import ComposeProject, Running
from replication_lab.model.lab.attachment import AttachedLink, Attachment, ComposeCall, Consumer

DATABASE = Running(
    "shop-db-1",
    image="sha256:db",
    named_image="sha256:db",
    addresses={"shop_default": "172.20.0.2"},
    exposed=frozenset({3306, 33060}),
    program="docker-entrypoint.sh mariadbd",
)
CALL = ComposeCall("shop", ["/shop/docker-compose.yml"], "/shop")
APPLICATION = Running(
    "shop-app-1",
    image="sha256:app",
    named_image="sha256:app",
    addresses={"shop_default": "172.20.0.3"},
    program="python3 web.py",
    environment={"DB_HOST": "db"},
)


def project(
    services: dict[str, dict[str, Any]] | None = None, running: dict[str, list[Running]] | None = None, **more: Any
) -> ComposeProject:
    """Return a shop: a database, an application, a worker. `services` change their keys, `running` their containers."""
    document: dict[str, dict[str, Any]] = {name: {"networks": {"default": None}} for name in ("db", "app", "worker")}
    for name, changes in (services or {}).items():
        document[name] = {**document.get(name, {"networks": {"default": None}}), **changes}
    found = {
        "db": [DATABASE],
        "app": [APPLICATION],
        "worker": [replace(APPLICATION, name="shop-worker-1", addresses={"shop_default": "172.20.0.4"})],
    }
    return ComposeProject(CALL, {"services": document, **more}, found | (running or {}))


def attachment(**changes: Any) -> Attachment:
    """Return the attachment of app:db."""
    usual: dict[str, Any] = {
        "compose": CALL,
        "links": [AttachedLink("app", "db", "app", "db", 3306, ["db", "shop-db-1"], ["default"])],
        "consumers": [Consumer("app", 1, "hash")],
        "nodes": {"db": "source"},
        "ports": {"db": 3306},
        "images": {"db": "mariadb:11.8"},
        "doors": ["default"],
    }
    return Attachment(**{**usual, **changes})
