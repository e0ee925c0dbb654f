"""The live view of a lab: what the page and `lab watch` show each second, and what a viewer may ask for.

docs/live.md describes the requests and the stream that carry these structs as JSON.
"""

from enum import StrEnum

import msgspec

from replication_lab.model.core.event import Event, Opening

# Conditions that are no toxic: a link that is switched off, and one without any toxic.
CUT, NONE = "cut", "none"
# What a viewer can act on.
LINK, NODE = "link", "node"
# Seconds of samples that a new viewer gets with its first event.
HISTORY_SECONDS = 600


class Level(StrEnum):
    """How good a state is, for a colour and a sign beside its words."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


class ViewedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node: its current role, its container's state, its server's state in words, and what can be done to it now.

    `at` is the state of the container: running, paused, exited or missing. `lag_s` and `behind` are a replica's lag,
    in seconds as the server reports it and in transactions; None where it does not apply or is unknown. `asked` is the
    last action, `seen` whether its effect was verified (None while it runs), `says` what was found.
    """

    name: str
    role: str
    at: str
    state: str
    level: Level
    writes_here: bool = False
    lag_s: float | None = None
    behind: int | None = None
    actions: list[str] = []
    disks: list["ViewedDisk"] = []
    asked: str = ""
    seen: bool | None = None
    says: str = ""
    busy: bool = False


class ViewedDisk(msgspec.Struct, frozen=True, kw_only=True):
    """An emulated disk: the limits that it reports, in the words of `lab disk limit`, and its work a second."""

    name: str
    write_iops: int | None = None
    read_iops: int | None = None
    bandwidth: int | None = None
    flush_us: int = 0
    writes_per_s: float | None = None
    flushes_per_s: float | None = None
    failed: bool = False


class ViewedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link: the condition that was asked for and the round trip that is measured, in ms.

    `asked` is a condition as in `lab toxic`, `cut` or `none`; `was` is the condition to which null resets it.
    `measured_ms` is the median of the newest round trips under this condition; None if none comes back. `seen` says
    whether the condition was seen to act (None while it is being verified), `says` is the proof in words. `carries`
    says whether it carries what the clients write now.
    """

    name: str
    source: str
    target: str
    asked: str
    was: str
    measured_ms: float | None = None
    seen: bool | None = None
    says: str = ""
    busy: bool = False
    carries: bool = False


class Latency(msgspec.Struct, frozen=True):
    """Percentiles of the `n` commits of one second, in ms; with few commits the 99th is almost the slowest one."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    n: int


class Track(msgspec.Struct, frozen=True):
    """The state of one track of coloured bands, such as "source" with "semi-sync ON"."""

    track: str
    state: str
    level: Level


class ViewedSample(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one second that ended `at` seconds after the start of the view.

    `law_per_s` is the most that this load can commit: clients / round trip that a commit waits for, and at most the
    rate of the load; None where commits wait for no round trip. `lag_s` and `behind` are by replica.
    """

    at: float
    commits_per_s: float | None = None
    errors_per_s: float | None = None
    law_per_s: float | None = None
    latency: Latency | None = None
    lag_s: dict[str, float | None] = {}
    behind: dict[str, int | None] = {}
    round_trip_ms: dict[str, float | None] = {}
    bands: list[Track] = []


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A fault or condition that somebody asked for, as a band in the charts; `end` is None while it acts.

    `target` is a node or a link, `kind` says which. `action` is a condition, `cut`, or an action on a node; empty in
    records of older versions. `seen` is None until it was verified.
    """

    id: int
    begin: float
    end: float | None = None
    label: str
    kind: str
    target: str
    seen: bool | None = None
    action: str = ""

    @property
    def acts(self) -> bool:
        """Whether it acts now, as far as is known: one whose effect was not seen explains nothing."""
        return self.end is None and self.seen is not False


class ViewedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of the load's clients so far.

    `lost` are acknowledged rows that were missing on the node `checked_on` at the last check, which began `checked_at`
    seconds after the start; None if there was none. `missing` are rows that each other copy lacked then: a lag, unless
    that copy is promoted. `says` is the reason if a check could not be made.
    """

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    in_flight: int = 0
    lost: int | None = None
    missing: dict[str, int] = {}
    checked_at: float | None = None
    checked_on: str = ""
    checking: bool = False
    says: str = ""


class ViewedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The load: its clients, the most transactions a second of all together (0: no limit), and the node they write to.

    Without clients (`clients` is 0) the view only watches: commits, latency, law and ledger are empty.
    """

    clients: int
    rate: float
    node: str = ""


class ViewedState(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown at one moment; sent once a second to every viewer as the event `state`.

    `spans` are those that have not ended, and those that ended within the history. `explain` are one or two sentences.
    `recording` is the folder of the running record, else empty. `notes` are the newest messages for the viewer.
    """

    at: float
    wall: str
    load: ViewedLoad
    nodes: list[ViewedNode]
    links: list[ViewedLink]
    sample: ViewedSample
    spans: list[Span] = []
    ledger: ViewedLedger = ViewedLedger()
    explain: list[str] = []
    recording: str = ""
    clicks: int = 0
    notes: list[str] = []


class Choice(msgspec.Struct, frozen=True):
    """A named condition of toxics/, for a menu."""

    name: str
    about: str


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first event of a stream, `hello`: what does not change, and the history.

    `waits_on` says which of the links that carry writes a commit waits for: one of WAITS, or nothing.
    """

    version: str
    lab: str
    topology: str
    about: str
    engine: str
    waits_on: str = ""
    toxics: list[Choice] = []
    samples: list[ViewedSample] = []


class Gone(msgspec.Struct, frozen=True):
    """The last event of a stream, `gone`: the lab was removed, or the command that serves the page ends."""

    why: str


# --- what a viewer asks for -------------------------------------------------------------------------------------------


class ChangeLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PATCH /links/NAME: a condition, `cut`, `none`, or null for what the link had at the start."""

    condition: str | None


class ActOnNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /nodes/NAME/ACTION; `limits` are for disk-limit, `allow_data_loss` is for promote and rejoin."""

    limits: dict[str, int] = {}
    allow_data_loss: bool = False


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /record."""

    on: bool


class SaveDrill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST /drill: the name of the drill, which names its file as well."""

    name: str = "clicked"


class Accepted(msgspec.Struct, frozen=True):
    """The answer to a request that was accepted; its effect is in the next states. `file` is what was written."""

    accepted: str
    file: str = ""


class CommandRefused(msgspec.Struct, frozen=True):
    """The answer to a request that was refused: the three lines of an error of the command line."""

    error: str
    expected: str = ""
    next: str = ""


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
