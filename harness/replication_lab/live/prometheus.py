"""The live view as metrics in Prometheus's text format."""

from collections.abc import Iterator, Mapping, Sequence

from replication_lab.model.live.view import Hello, Level, ViewedState

LEVELS = {Level.GOOD: 2, Level.WARN: 1, Level.BAD: 0}
Labels = Mapping[str, str]
Values = Sequence[tuple[Mapping[str, str], float | None]]


def text_of(hello: Hello, state: ViewedState) -> str:
    """Return all metrics; those whose value is unknown are left out."""
    return "".join(_lines(hello, state))


def _lines(hello: Hello, state: ViewedState) -> Iterator[str]:
    sample, ledger = state.sample, state.ledger
    lab: Labels = {"lab": hello.lab, "topology": hello.topology, "engine": hello.engine}
    yield from _metric("lab_info", "The lab that is observed.", [(lab, 1)])
    yield from _metric("lab_commits_per_second", "Commits by lab live's own clients.", [({}, sample.commits_per_s)])
    yield from _metric("lab_errors_per_second", "Errors that these clients received.", [({}, sample.errors_per_s)])
    yield from _metric("lab_law_per_second", "Upper bound on commits: clients / round trip.", [({}, sample.law_per_s)])
    if sample.latency:
        parts = (("0.5", sample.latency.p50_ms), ("0.95", sample.latency.p95_ms), ("0.99", sample.latency.p99_ms))
        found = [({"quantile": name}, ms / 1000) for name, ms in parts]
        yield from _metric("lab_commit_latency_seconds", "Commit latency of the last second.", found)
    trips = [({"link": name}, ms and ms / 1000) for name, ms in sample.round_trip_ms.items()]
    yield from _metric("lab_link_round_trip_seconds", "Measured round trip.", trips)
    yield from _metric(
        "lab_replica_lag_seconds", "Lag as the server reports it.", [({"node": n}, s) for n, s in sample.lag_s.items()]
    )
    yield from _metric(
        "lab_replica_lag_transactions",
        "Transactions that a replica lacks.",
        [({"node": name}, rows) for name, rows in sample.behind.items()],
    )
    nodes = [({"node": node.name, "state": node.state}, LEVELS.get(node.level)) for node in state.nodes]
    yield from _metric("lab_node_state", "2 good, 1 degraded, 0 bad.", nodes)
    acting = [({"fault": span.label}, 1) for span in state.spans if span.acts]
    yield from _metric("lab_fault_active", "A fault that is active now.", acting)
    counts = (("sent", ledger.sent), ("acknowledged", ledger.acknowledged), ("failed", ledger.failed))
    rows = [({"outcome": name}, many) for name, many in (*counts, ("unknown", ledger.unknown))]
    yield from _metric("lab_ledger_rows_total", "Rows of these clients, by outcome.", rows, "counter")
    yield from _metric("lab_ledger_lost_rows", "Acknowledged rows that are missing.", [({}, ledger.lost)])


def _metric(name: str, about: str, values: Values, kind: str = "gauge") -> Iterator[str]:
    known = [(labels, value) for labels, value in values if value is not None]
    if known:
        yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for labels, value in known:
        said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{said}}} {value:g}\n" if said else f"{name} {value:g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
