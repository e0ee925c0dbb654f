"""An endpoint: the one address that clients use in place of the nodes' own, such as that of a proxy."""

import msgspec

from replication_lab.model.lab.companion import CompanionSetting

# What a drill, a ledger and a setting call it, beside the names of nodes.
ENDPOINT = "endpoint"
# The side of it that clients only read from.
ENDPOINT_READS = "endpoint-reads"
# The value of a question's setting for clients that connect to the nodes themselves.
NONE = "none"


class EndpointKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file compose/endpoints/NAME.yaml; the ports are those in its container. An `image` with a slash is a vendor's.

    `states` is the port at which it tells what it has found out about each node, as CSV of HAProxy; 0 without one.
    Without `checks` it asks no node, and leads where an address does that one of the `managers` moves.
    """

    about: str
    image: str
    writes: int
    reads: int
    states: int
    settings: dict[str, CompanionSetting]
    checks: bool = True
    managers: list[str] = []
