"""The figures by which two runs, or two servers in the same rounds, are compared."""

from typing import NamedTuple


class ComparedFigure(NamedTuple):
    """What a figure counts, in words after "at least 90% of the"; and whether more of it is better."""

    words: str
    more_is_better: bool = True


FIGURES = {
    "throughput": ComparedFigure("commits/s"),
    "latency_p50_ms": ComparedFigure("median latency", more_is_better=False),
    "latency_p95_ms": ComparedFigure("95th percentile of latencies", more_is_better=False),
    "latency_p99_ms": ComparedFigure("99th percentile of latencies", more_is_better=False),
    "average_ms": ComparedFigure("average time of a query", more_is_better=False),
    "source_cpu_ms": ComparedFigure("CPU time of a commit on the source", more_is_better=False),
    "direct_mb_per_second": ComparedFigure("MB/s of direct writes"),
    "fsync_mb_per_second": ComparedFigure("MB/s of writes with fsync"),
    "random_read_iops_per_job": ComparedFigure("random reads/s"),
    "random_write_iops_per_job": ComparedFigure("random writes/s"),
    "sequential_read_iops_per_job": ComparedFigure("sequential reads/s"),
    "sequential_write_iops_per_job": ComparedFigure("sequential writes/s"),
    "reconnected_ms": ComparedFigure("time until the replica is connected again", more_is_better=False),
    "applied_rows_per_second": ComparedFigure("rows/s applied on the replica"),
    "single_rows_per_second": ComparedFigure("rows/s applied on one disk"),
    "raid0_rows_per_second": ComparedFigure("rows/s applied on RAID0"),
    "raid1_rows_per_second": ComparedFigure("rows/s applied on RAID1"),
}
THROUGHPUT = "throughput"
