"""The lines of a record that a viewer of a lab made: what was shown, second by second. No verdict comes from it."""

from replication_lab.model.core.event import Event, Opening
from replication_lab.model.live.view import Span, ViewedLedger, ViewedSample


class Live(Opening, frozen=True, kw_only=True, tag="live"):
    """The first line: the lab that was shown, and the load on it. `began` is the view's time at that moment."""

    lab: str
    topology: str
    clients: int
    rate: float
    began: float


class Second(Event, frozen=True, kw_only=True, tag="second"):
    """What was shown of one second, with the sentences that explained it."""

    sample: ViewedSample
    ledger: ViewedLedger
    explain: list[str] = []


class Acted(Event, frozen=True, kw_only=True, tag="acted"):
    """All that viewers did until the end of the record, as bands."""

    spans: list[Span]
