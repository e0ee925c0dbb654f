"""What a node waits for: its own resources, its sessions, and the cluster that it is a member of."""

import msgspec

from replication_lab import replication
from replication_lab.probes import bottleneck
from replication_lab.probes.bottleneck import Diagnosis, NodeSample
from replication_lab.probes.node_resources import sample
from replication_lab.world.docker.lab import Lab


def diagnosed(lab: Lab, node: str, seconds: float) -> tuple[Diagnosis, NodeSample]:
    """Return a node's bottleneck over some seconds, and what was seen; LabError when it does not run or is no node."""
    kind = replication.of(lab)
    before = kind.queues()
    seen = sample(lab, node, seconds)
    queues = {name: now.since(before[name]) for name, now in kind.queues().items() if name in before}
    lost = kind.lost_majority()
    hindrance = f"{lost.found}; {lost.next_step}" if lost else kind.soon(kind.hindrance, node) or ""
    seen = msgspec.structs.replace(seen, queues=queues, hindrance=hindrance)
    return bottleneck.diagnose(seen), seen
