"""The state in which a case of a question is measured."""

from dataclasses import dataclass, field

from replication_lab.model.question.server_options import ServerOptions


@dataclass(frozen=True)
class CaseState:
    """What a case sets on its lab and asks of its clients, besides the toxics of its links.

    An empty `replication` is that of the topology. `wait_point` (of semi-sync) and `protocol` (of DRBD) are None where
    the servers' own are to stay. `rate` is in transactions a second, None for as many as possible.
    """

    replication: str = ""
    clients: int = 1
    wait_point: str | None = None
    protocol: str | None = None
    rate: float | None = None
    servers: ServerOptions = field(default_factory=ServerOptions)
