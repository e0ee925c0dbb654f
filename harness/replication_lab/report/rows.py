"""The rows of summary.json, a versioned document for each kind of run (docs/summary.md, docs/summary.schema.json)."""

import msgspec

from replication_lab.model.core.event import LabCameUp
from replication_lab.model.core.statistics import Interval
from replication_lab.model.core.verdict import Judgement
from replication_lab.model.drill.drill_result import FigureJudgement, Result
from replication_lab.model.drill.evidence import Evidence, FaultEvidence, Return, ThroughEndpoint
from replication_lab.model.drill.timeline import Phase
from replication_lab.model.drill.writable import resolution
from replication_lab.model.experiment.curves import Curves
from replication_lab.model.experiment.judgement import ClaimJudgement, NotJudged
from replication_lab.model.lab.companion import shown
from replication_lab.model.record.chosen import Only
from replication_lab.model.record.measurement import SeenToxic

SCHEMA = 4


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the summary."""


class NoiseRow(Row, frozen=True, kw_only=True):
    """The host's noise: measurements taken, how many were noisy, the worst shares (0…1) and the reasons.

    A drill's load counts as several: before, during and after each fault. `accepted` of the noisy ones count all the
    same, and are in doubt. `slowest_cpus` says how many times as long the same loop took in the slowest measurement of
    a case as in its fastest; the largest of all cases.
    """

    measurements: int
    noisy: int
    accepted: int = 0
    worst_foreign_cpu: float | None = None
    worst_steal: float | None = None
    slowest_cpus: float | None = None
    why: list[str] = []


class Environment(Row, frozen=True, kw_only=True):
    """The machine (kernel, CPUs, memory, engine versions), the servers, and the noise."""

    host: dict
    labs: list[LabCameUp]
    noise: NoiseRow


class FaultRow(SeenToxic, frozen=True, kw_only=True):
    """A toxic in one measurement, and its proof."""

    engine: str
    case: str
    round: int


class FigureRow(Row, frozen=True, kw_only=True):
    """The mean over the quiet rounds with its 95 % interval (null if the rounds allow none), and the known values."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    published: float | None = None
    predicted: float | None = None
    ratio_to_published: float | None = None
    ratio_to_predicted: float | None = None


class CaseRow(Row, frozen=True, kw_only=True):
    """One case on one engine: `rounds` quiet rounds, which count, and `noisy` measurements, which do not.

    Of a user's question, `pooled` holds the minimum, percentiles and the maximum of all latencies of the quiet rounds
    together; `figures` has the means of the rounds' own percentiles, which claims compare round by round.
    """

    engine: str
    name: str
    about: str
    rounds: int
    noisy: int
    doubts: list[str]
    figures: dict[str, FigureRow]
    pooled: dict[str, float] = {}


class DrillRow(Row, frozen=True, kw_only=True):
    """One drill, without figures if it was not run; `clients` wrote, by node, for `seconds`.

    `ledger` is the file of their statements beside the record, `phases` are what they saw before, during and after
    each fault. `endpoint` is what they met behind the endpoint that they used. `manager` is the failover manager,
    `resolution` is how exactly the time with two writable servers is known. `uncounted_tables` are those of the user in
    which lost rows are not counted.
    """

    name: str
    about: str
    exit_code: int
    clients: dict[str, int]
    seconds: float
    figures: dict[str, float | str]
    expectations: list[FigureJudgement]
    doubts: list[str]
    acted: list[FaultEvidence]
    returns: dict[str, Return]
    forbidden: list[str]
    ledger: str = ""
    phases: list[Phase] = []
    endpoint: ThroughEndpoint | None = None
    manager: str = ""
    resolution: str = ""
    uncounted_tables: list[str] = []

    @classmethod
    def of(cls, result: Result) -> "DrillRow":
        evidence = result.evidence or Evidence(drill=result.drill, at="")
        return cls(
            name=result.drill.name,
            about=result.drill.about,
            exit_code=result.exit_code,
            clients=result.drill.clients,
            seconds=evidence.load[1],
            figures=result.figures,
            expectations=result.judgements,
            doubts=result.doubts,
            acted=evidence.acted,
            returns=evidence.returns,
            forbidden=evidence.forbidden_lines,
            ledger=result.ledger,
            phases=result.phases,
            endpoint=evidence.endpoint,
            manager=shown(result.drill.manager, result.drill.manager_settings),
            resolution=resolution(evidence),
            uncounted_tables=evidence.uncounted_tables,
        )


class CellRow(Row, frozen=True, kw_only=True):
    """One case on one engine over its quiet rounds: the mean of the averages, the minimum and the maximum."""

    average: float
    least: float
    most: float


class ComparedRow(Row, frozen=True, kw_only=True):
    """The cells of one row, in the order of the columns; null where an engine has no value."""

    label: str
    cells: list[CellRow | None]


class ComparisonRow(Row, frozen=True, kw_only=True):
    """A table that compares the measured engines; its figures are in `unit`."""

    title: str
    unit: str
    columns: list[str]
    rows: list[ComparedRow]


class AnySummary(Row, frozen=True, kw_only=True, tag_field="kind"):
    """The fields of every run; `verdict` is AS_EXPECTED, CHANGED, CRASHED or UNKNOWN for exit code 0, 1, 2 or 3."""

    schema: int = SCHEMA
    seed: int
    started: str
    engines: list[str]
    verdict: str
    exit_code: int
    ended: str | None
    interrupted: str | None
    crashed: str | None
    torn: bool
    environment: Environment
    doubts: list[str]
    record: str


class EffectRow(Row, frozen=True, kw_only=True):
    """One answer to a user's question: how `case` compares with `baseline`.

    `changed` names what differs between the two, `common` the varied settings that are the same. `throughput_ratio` is
    the throughput of the case divided by that of the baseline. For a load with a rate it is null, and
    `latency_p50_ratio` and `latency_p99_difference_ms` have values instead. All intervals have the confidence level of
    one look of the run. If `known` is false, the ratio is not precise enough or not proved, and `sentence` says why.
    `claims` lists the ids of the claims about this ratio.
    """

    engine: str
    changed: str
    common: str
    case: str
    baseline: str
    known: bool
    claims: list[str]
    throughput_ratio: Interval | None
    latency_p50_difference_ms: Interval | None
    sentence: str
    latency_p50_ratio: Interval | None = None
    latency_p99_difference_ms: Interval | None = None


class RangeRow(Row, frozen=True, kw_only=True):
    """The smallest and the largest value of n drills."""

    low: float
    high: float
    n: int


class DrilledRow(Row, frozen=True, kw_only=True):
    """What the drills of a user's question found in one case: `asked` names the drill, `drills` are its `runs`.

    `lost` is the number of acknowledged rows that are missing. `rpo_s` is the recovery point: the seconds of writes
    that they are. `rto_s` is the time in seconds from the fault until a write was acknowledged again. `outage_s` is
    what clients saw of it: the time between two acknowledged writes. All four are null if a drill is missing or not
    proved; `not_proved` then has the reasons. `outage_s` is null in older records, too. `counts` names what `lost`
    counts: "rows of the drill's own clients" or "transactions of the workload". `takes_over` names what decides that
    another node takes over. `claims` lists the ids of the claims that both figures are known.
    """

    engine: str
    case: str
    topology: str
    asked: str
    about: str
    takes_over: str
    counts: str
    runs: int
    known: bool
    lost: RangeRow | None
    rpo_s: RangeRow | None
    rto_s: RangeRow | None
    outage_s: RangeRow | None
    not_proved: list[str]
    claims: list[str]
    drills: list[DrillRow]


class ExperimentSummary(AnySummary, frozen=True, kw_only=True, tag="experiment"):
    """A run of an experiment; `counts` is the unit of its load: commits, or transactions, some of which only read.

    `by_interval` is the number of verdicts that an interval decided, `expected_wrong` how many of them may be wrong.
    `sites` is the number of rounds that each site measured, if they are several.
    """

    experiment: str
    question: str
    preset: str
    source: str
    faults: list[FaultRow]
    cases: list[CaseRow]
    claims: list[ClaimJudgement]
    not_judged: list[NotJudged]
    conditions: dict[str, str] = {}
    only: Only = Only()
    curves: list[Curves] = []
    comparison: ComparisonRow | None = None
    effects: list[EffectRow] = []
    counts: str = "commit"
    drilled: list[DrilledRow] = []
    by_interval: int = 0
    expected_wrong: float = 0.0
    sites: dict[str, int] = {}

    @property
    def answers(self) -> bool:
        """Whether the run answers a user's question."""
        return bool(self.effects or self.drilled)

    @property
    def judged(self) -> list[Judgement]:
        return [*self.claims]


class DrillsSummary(AnySummary, frozen=True, kw_only=True, tag="drills"):
    """A run of drills on labs of one topology."""

    topology: str
    drills: list[DrillRow]

    @property
    def judged(self) -> list[Judgement]:
        return [each for drill in self.drills for each in drill.expectations]


Summary = ExperimentSummary | DrillsSummary
