"""What a change of roles did: a node that took over, one that was taken back, one that left service."""

import msgspec


class TakenOver(msgspec.Struct, frozen=True):
    """A node that accepts writes now in place of another one.

    `source` is that node, `old` the one before it, and `replaced` are the nodes that have to be taken back afterwards.
    `lacks` is what `source` is known to lack, in words, and `lost` the number of those transactions; None if this kind
    of replication cannot count them. `fenced` is how the old node was made to refuse writes. `seconds` is the time
    until the server answered, where it had to start.

    Replicas that are `ahead` of the new source cannot follow it and replicate from no node; the values are their errant
    transactions, in words. Those that are `left` could not be repointed, with the reason.
    """

    old: str
    source: str
    repointed: list[str] = []
    lacks: str = ""
    ahead: dict[str, str] = {}
    left: dict[str, str] = {}
    lost: int | None = None
    fenced: str = ""
    replaced: list[str] = []
    seconds: float | None = None


class TakenBack(msgspec.Struct, frozen=True):
    """A node that has the same data again as `source`, and what only it had, now discarded, in words.

    `state` is the state of its replicated disk, if it has one, and `seconds` the time until it was in sync.
    """

    node: str
    source: str
    discarded: str = ""
    state: str = ""
    seconds: float | None = None


class TakenOut(msgspec.Struct, frozen=True):
    """A node that is out of service, and the seconds until its peer served; None if the peer served already."""

    standby: str
    seconds: float | None = None
