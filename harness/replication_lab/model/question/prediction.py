"""Predictions of a simulation, each beside the measured figures of its point, if it was measured."""

from dataclasses import dataclass, field

from replication_lab.model.question.setting import Values


@dataclass(frozen=True)
class MeasuredPoint:
    """A case of a record: commits a second, and quantiles of the latencies in ms."""

    case: str
    throughput: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Predicted:
    """A point: its settings, what was simulated, and what was measured there.

    `limit` is what a client spends most of its time on, and `share` that share. `extrapolated` are the settings that
    are outside of what was measured, in words; empty for a point inside. `not_validated` says which of the figures have
    not been compared with enough measurements, or did not agree with them.
    """

    topology: str
    values: Values
    throughput: float
    p50_ms: float
    p99_ms: float
    limit: str
    share: float
    extrapolated: list[str] = field(default_factory=list)
    not_validated: list[str] = field(default_factory=list)
    measured: MeasuredPoint | None = None


@dataclass(frozen=True)
class Prediction:
    """All points of a question; `fitted` tells from which points of which record, and `parameters` what was found."""

    points: list[Predicted]
    sources: list[str]
    parameters: dict[str, dict[str, float]]
    seed: int
