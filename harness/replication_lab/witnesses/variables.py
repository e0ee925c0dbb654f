"""Did servers keep each variable that this process set? The settings of experiments, questions and drills are read."""

from replication_lab.model.core.variable import is_same
from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql import own_settings
from replication_lab.world.mysql.own_settings import OwnSetting
from replication_lab.world.mysql.server import Server

KEPT = "the servers kept each variable that the lab set"


def variables(lab: Lab) -> Sampled[Server]:
    """Return the witness of all servers of a lab; one without a variable of the lab is not connected to."""
    return Sampled(KEPT, lab, dict.fromkeys((node.name for node in lab.topology.nodes), changed_by_others))


def changed_by_others(server: Server) -> list[str]:
    """Return the variables that have another value than this process gave them, in words."""
    asked = own_settings.made(server.address)
    if not asked:
        return []
    found = server.global_values(*asked)
    other = {name: value for name, value in found.items() if not is_same(asked[name].value, value)}
    # One that this process has set during the reading may have either value.
    now = own_settings.made(server.address)
    kept = {name: asked[name] for name in other if now.get(name) == asked[name]}
    return [
        f"{name} was {other[name]} on {server.name}, not {one.value}"
        for name, one in kept.items()
        if not _has_restarted(server, one)
    ]


def _has_restarted(server: Server, since: OwnSetting) -> bool:
    """Return whether a server was started again, and lost what was set: it tells whole seconds since its start."""
    up = server.rows("SHOW GLOBAL STATUS LIKE 'Uptime'")[0]["Value"]
    return clock.timer() - float(up) > since.at
