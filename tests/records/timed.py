"""Give a kept record, older than timelines, those that its latencies make, as of one client without a pause."""

from itertools import accumulate
from pathlib import Path

import msgspec
from replication_lab.model.drill.evidence import Looked, View
from replication_lab.model.question.load import Moments
from replication_lab.model.record.load_timeline import timeline_of
from replication_lab.model.record.measurement import Measurement
from replication_lab.model.record.record import written
from replication_lab.world.journal import read

VIEWS = {"source": View("semi-sync ON"), "replica": View("replicating", behind_s=0)}


def add_timelines(run: Path) -> None:
    """Write the record of an unpacked run again, with a timeline for each load that has latencies."""
    _, record = read(run)
    (run / "record.jsonl").write_bytes(b"".join(written(map(_timed, record.events))))


def _timed(event):
    latencies = event.samples.get("latency_ms", []) if isinstance(event, Measurement) else []
    if not latencies:
        return event
    ends = [ms / 1000 for ms in accumulate(latencies)]
    looked = [Looked(float(at), node, view) for at in range(int(ends[-1]) + 1) for node, view in VIEWS.items()]
    moments = Moments(0.0, ends[-1], list(zip(ends, latencies, strict=True)), [ends[0]])
    return msgspec.structs.replace(event, timeline=timeline_of(moments, looked, (0.0, ends[-1]), 0.0))
