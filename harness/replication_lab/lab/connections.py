"""How clients reach a lab's nodes, with the password: for `lab env` and --json; no record and no file gets it."""

import re
from contextlib import suppress
from urllib.parse import quote

import msgspec

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.endpoint import ENDPOINT, ENDPOINT_READS
from replication_lab.world.docker.lab import DATABASE, USER, Lab


class NodeAddress(msgspec.Struct, frozen=True):
    """The address of a node's server on this machine, and the account of applications there."""

    node: str
    host: str
    port: int
    user: str
    password: str
    database: str
    dsn: str


def connections(lab: Lab) -> list[NodeAddress]:
    """Return the connection of each node whose container runs, in the topology's order; then those of the endpoint."""
    found = []
    for node in lab.topology.nodes:
        with suppress(LabError):
            host, port = lab.node(node.name).bound(3306)
            user, password = lab.application(node.name)
            database = lab.database(node.name)
            way = dsn(password, host, port, user, database)
            found.append(NodeAddress(node.name, host, port, user, password, database, way))
    return [*found, *of_endpoint(lab)]


def of_endpoint(lab: Lab) -> list[NodeAddress]:
    """Return where clients write and read through the endpoint of a lab that was started with one."""
    found = []
    with suppress(LabError):
        if (endpoint := lab.endpoint) and endpoint.kind.states:
            user, password = lab.application(lab.topology.source.name)
            for name, port in ((ENDPOINT, endpoint.kind.writes), (ENDPOINT_READS, endpoint.kind.reads)):
                host, bound = endpoint.service.bound(port)
                way = dsn(password, host, bound, user)
                found.append(NodeAddress(name, host, bound, user, password, DATABASE, way))
    return found


def dsn(password: str, host: str, port: int, user: str = USER, database: str = DATABASE) -> str:
    """Return the DSN of an account at an address, by default that of applications."""
    return f"mysql://{user}:{quote(password, safe='')}@{host}:{port}/{database}"


def variables(lab: Lab) -> dict[str, str]:
    """Return the connections as environment variables; LabError if no node runs.

    Those of MySQL's own clients lead to the node at which clients write now. No name is one that Compose takes from the
    environment, such as LAB_PASSWORD or LAB_PORT_SOURCE: the next `lab up` would take this lab's ports.
    """
    found = {each.node: each for each in connections(lab)}
    if not found:
        raise LabError(f"no node of {lab.name} runs", "a running node", f"./lab status --lab {lab.name}")
    named = {"LAB_NAME": lab.name}
    writer = found.get(replication.of(lab).written_at())
    if writer:
        named |= {
            "MYSQL_HOST": writer.host,
            "MYSQL_TCP_PORT": str(writer.port),
            "MYSQL_USER": writer.user,
            "MYSQL_PWD": writer.password,
            "MYSQL_DATABASE": writer.database,
            "LAB_DSN": writer.dsn,
        }
    for node, each in found.items():
        prefix = f"LAB_{re.sub(r'[^A-Z0-9]', '_', node.upper())}"
        named |= {f"{prefix}_HOST": each.host, f"{prefix}_PORT": str(each.port), f"{prefix}_DSN": each.dsn}
    return named
