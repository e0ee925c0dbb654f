"""The features of a running server: what topologies and cases may require, read from its variables and version."""

from pathlib import Path

import msgspec

from replication_lab.model.lab.server_version import Version, parse_version
from replication_lab.world.mysql.server import Server

# A server with one of these variables has the feature.
BY_VARIABLE = msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, tuple[str, ...]])
PROVIDER = "wsrep_provider"
# The features that a server can report; replication that is not among them lies below it, or every server has it.
REPORTED = frozenset({*BY_VARIABLE, "galera"})


def features_of(server: Server) -> frozenset[str]:
    """Return the features of a running server, by the names of engines.yaml."""
    found = server.settings(PROVIDER, *(name for names in BY_VARIABLE.values() for name in names))
    has = {feature for feature, names in BY_VARIABLE.items() if any(name in found for name in names)}
    if found.get(PROVIDER, "none") not in ("none", ""):
        has.add("galera")
    return frozenset(has | _of_temporary_tables(parse_version(server.version())))


def _of_temporary_tables(version: Version) -> set[str]:
    """Return where the server can keep a large temporary table, and whether it counts it: no variable tells these."""
    if version.family == "mariadb":
        return {"tmp_counted"}
    engines = {"tmp_innodb"} if version.numbers >= (5, 7) else set()
    return engines | ({"tmp_myisam", "tmp_counted"} if version.numbers < (8, 0) else set())
