"""Records of runs that never took place, with the cases and the size of figures of the semi-sync experiment."""

from random import Random

from replication_lab.model.core.event import End, LabCameUp
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.experiment import Experiment, Preset, schedule
from replication_lab.model.experiment.published import parse_data
from replication_lab.model.experiment.quantities import PerRoundTrip, Total, p50, rtt, throughput
from replication_lab.model.record.measurement import Measurement, SeenToxic, Spread
from replication_lab.model.record.record import Record, RunOpening

LAN = {"none": 5366.0, "async-85ms": 4807.0, "semisync-direct": 2553.0, "semisync-proxy": 2096.0}
WAN = {f"{point}-85ms-{clients}": clients for point in ("after-sync", "after-commit") for clients in (1, 4, 16, 64)}
RTT = 85.9

DATA = """
published:
  source: "2013 write-up, Percona Server 5.5, EC2 us-east-1 to us-west-1, ping 85.5 ms"
  rows:
    - {case: none, figure: throughput, value: 1066.8, unit: 1/s}
    - {case: async-85ms, figure: throughput, value: 943.2, unit: 1/s}
    - {case: after-sync-85ms-1, figure: throughput, value: 11.51, unit: 1/s}
    - {case: after-sync-85ms-1, figure: latency_p50_ms, value: 86.3, unit: ms}
claims:
  async-costs-little: {published: 0.88}
  one-client-per-rtt: {published: 0.978}
expected:
  - claim: sixteen-clients-pipeline
    engine: mariadb
    verdict: REFUTED
    because: "with AFTER_SYNC the commits of a group wait for each other, so that 16 clients reach less than 16/RTT"
"""

CLAIMS = (
    Claim(
        "async-costs-little",
        "an asynchronous replica across the WAN costs little",
        throughput("async-85ms") / throughput("none") >= 0.7,
    ),
    Claim(
        "one-commit-one-rtt",
        "one semi-synchronous commit takes one round trip",
        (p50("after-sync-85ms-1") / rtt("after-sync-85ms-1")).equals(within=0.05),
        predicted=1.0,
    ),
    Claim(
        "one-client-per-rtt",
        "one client commits 1/RTT times a second",
        (throughput("after-sync-85ms-1") / PerRoundTrip("after-sync-85ms-1")).between(0.95, 1.0),
        predicted=1.0,
    ),
    Claim(
        "sixteen-clients-pipeline",
        "16 clients commit about 16/RTT times a second",
        throughput("after-sync-85ms-16") / PerRoundTrip("after-sync-85ms-16", 16) >= 0.9,
        predicted=1.0,
    ),
    Claim(
        "link-is-as-asked",
        "the link takes the 85 ms that were asked for, within 1 ms",
        rtt("after-sync-85ms-1").between(84, 86),
        predicted=85.0,
    ),
    Claim(
        "after-sync-hides",
        "AFTER_SYNC never shows a row before its writer is answered",
        Total("after-sync-85ms-1", "seen_early").is_zero(trials="trials", at_least=30),
    ),
    Claim(
        "after-commit-shows",
        "AFTER_COMMIT shows a row before its writer is answered",
        Total("after-commit-85ms-1", "seen_early").is_positive(),
    ),
)


def predict(case: Case, figures: dict[str, float]) -> dict[str, float]:
    """Return the law clients/RTT for the cases that wait for the link."""
    clients = WAN.get(case.name)
    trip = figures.get("rtt_p50_ms")
    return {"throughput": clients * 1000 / trip, "latency_p50_ms": trip} if clients and trip else {}


def experiment(claims=CLAIMS, data=DATA, **others) -> Experiment:
    """Return the semi-sync experiment as far as the judge and the report use it."""
    cases = [
        Case("none", "no replica"),
        Case("async-85ms", "asynchronous, behind 85 ms"),
        Case("semisync-direct", "semi-sync on the bare link"),
        Case("semisync-proxy", "semi-sync, no toxics"),
    ]
    cases += [Case(name, f"semi-sync behind 85 ms, {n} clients", {"clients": n}) for name, n in WAN.items()]
    parts = {
        "name": "semisync_wan",
        "topology": "semisync",
        "engines": ("mariadb", "mysql-5.5"),
        "predict": predict,
        "question": "What does a commit cost when a replica 85 ms away must acknowledge it?",
        "presets": {"quick": Preset("quick", 3, 8), "full": Preset("full", 5, 12)},
    }
    return Experiment(cases=tuple(cases), claims=tuple(claims), data=parse_data(data), **(parts | others))


def run(engines=("mariadb",), **settings) -> RunOpening:
    """Return the first line of a record."""
    host = {"kernel": "6.1.0", "cpus": 2, "cpu model": "a CPU", "memory": "8 GiB", "docker engine": "26.1.5"}
    return RunOpening(
        experiment="semisync_wan",
        preset="quick",
        seed=7,
        engines=list(engines),
        settings=settings,
        environment=host,
        started="2030-01-01T12:00:00+00:00",
    )


def lab(engine="mariadb", **others) -> LabCameUp:
    """Return a lab that came up."""
    return LabCameUp(
        engine=engine,
        version="11.8.6-MariaDB",
        topology="semisync",
        images={"source": "sha256:" + "5" * 64, "replica": "sha256:" + "5" * 64},
        settings={"innodb_flush_log_at_trx_commit": 0},
        **others,
    )


def toxic(seen=True, during=RTT) -> SeenToxic:
    """Return a fault of 85 ms on the replication link."""
    return SeenToxic(
        link="source-replica",
        toxic="wan-85ms",
        unit="ms",
        asked=85,
        before=0.2,
        after=0.3,
        seen=seen,
        during=Spread(min=during - 0.6, p50=during, max=during + 9, n=20),
    )


def measurement(case: str, round: int, engine="mariadb", *, figures=None, **others) -> Measurement:
    """Return one measurement of a case; figures vary by a per cent from round to round, the same ones every time."""
    dice = Random(f"{engine}:{case}:{round}")
    given = _wan(case, dice) if case in WAN else _lan(case, dice)
    parts = {"noise": Noise(foreign_cpu=0.02, steal=0.0), "at": "2030-01-01T12:00:00+00:00", "seconds": 4.0}
    return Measurement(
        engine=engine,
        round=round,
        case=case,
        **(parts | given | others | {"figures": given["figures"] | (figures or {})}),
    )


def record(rounds=4, engines=("mariadb",), *more, **settings) -> Record:
    """Return a whole run in which every claim holds but the one that is expected to be refuted."""
    events = [run(engines, **settings)]
    for engine in engines:
        events.append(lab(engine))
        for number, cases in schedule([*LAN, *WAN], rounds, seed=7):
            events += [measurement(case, number, engine) for case in cases]
    return Record([*events, *more, End(why="decided")])


def replaced(old: Record, case: str, round: int, **parts) -> Record:
    """Return the same record but for one measurement."""
    return Record(
        [
            measurement(case, round, **parts)
            if isinstance(event, Measurement) and (event.case, event.round) == (case, round)
            else event
            for event in old.events
        ],
        old.torn,
    )


def _lan(case: str, dice: Random) -> dict:
    rate = LAN[case] * dice.gauss(1, 0.01)
    return {
        "figures": {"throughput": rate, "latency_p50_ms": 950 / rate, "latency_min_ms": 700 / rate},
        "samples": {"latency_ms": [950 / rate * dice.lognormvariate(0, 0.25) for _ in range(60)]},
    }


def _wan(case: str, dice: Random) -> dict:
    clients, trip = WAN[case], RTT * dice.gauss(1, 0.001)
    share = 0.985 if clients == 1 or "commit" in case else 0.55
    rate = clients * 1000 / trip * share * dice.gauss(1, 0.003)
    shown = 10 if "commit" in case else 0
    figures = {
        "throughput": rate,
        "latency_p50_ms": clients * 1000 / rate * 0.998,
        "latency_min_ms": trip + 0.4,
        "rtt_p50_ms": trip,
        "rtt_min_ms": trip - 0.5,
        "seen_early": shown,
        "trials": 10,
    }
    return {
        "figures": figures,
        "faults": [toxic(during=trip)],
        "proofs": [Proof(what="semi-sync stayed on", expected="no_tx + 0", found="no_tx + 0", ok=True)],
        "samples": {"latency_ms": [1000 * clients / rate * dice.lognormvariate(0, 0.02) for _ in range(60)]},
    }


def claim(relation, **parts) -> Claim:
    """Return a claim of which only the relation matters."""
    return Claim("a-claim", "a sentence", relation, **parts)
