"""Did the rules on packets change only by what the lab did? The kernel tells each change of a network's rules.

They are observed where the lab has rules: at a cluster's nodes, at virtual machines, and at links that lose packets. A
node's own container may not change rules, and a container that others start in its network is seen by its start.
"""

from replication_lab.witnesses.sampled import Sampled
from replication_lab.witnesses.told import TELLS, Changes, told_by
from replication_lab.world.docker import images
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.labels import MANAGER_LABEL
from replication_lab.world.requests_made import COMMAND as RUN
from replication_lab.world.requests_made import OwnRequest

KEPT_RULES = "no other program changed the rules on packets of the lab's networks"
COMMAND = ["bash", "-c", TELLS, "tells", "xtables-monitor", "--event"]
POWER = "NET_ADMIN"


def packet_rules(lab: Lab) -> Sampled[Conversation]:
    """Return the witness of all networks of a lab in which a container of the lab may change rules."""
    managers = [each for each in lab.containers.values() if each.labels.get(MANAGER_LABEL)]
    # A failover manager may change its own host, whose network it uses.
    its_own = {str(each.attrs["HostConfig"]["NetworkMode"]).partition(":")[2] for each in managers}
    able = [
        service
        for service, each in lab.containers.items()
        if str(each.attrs["Config"]["Image"]).startswith(images.PREFIX)
        and {POWER, f"CAP_{POWER}"} & {*(each.attrs["HostConfig"]["CapAdd"] or ())}
        and not each.labels.get(MANAGER_LABEL)
        and each.id not in its_own
    ]
    readings = {each: Changes(_Rules(each), _may_change, str(lab.containers[each].id)) for each in able}
    return told_by(KEPT_RULES, lab, readings, lambda _: COMMAND)


def _may_change(made: OwnRequest) -> bool:
    """Return whether a request runs a script in a network."""
    return made.kind == RUN and "bash -c " in made.what


class _Rules:
    """The rules of one network."""

    def __init__(self, service: str) -> None:
        self._service = service

    def __call__(self, lines: list[str]) -> list[str]:
        """Return each change but the number of its generation, which follows it."""
        told = [line.strip().removeprefix("EVENT: ") for line in lines if line.strip().startswith("EVENT: ")]
        return [f"{self._service}: {each}" for each in told]
