"""Digests of runs that were never made: one case and one claim, whose figures scatter as they are told to."""

import numpy as np
from msgspec.structs import replace
from replication_lab.model.comparing import comparison
from replication_lab.model.comparing.digest import CaseDigest, ClaimDigest, Digest, EngineDigest
from replication_lab.model.core.verdict import Verdict

MACHINE = {"machine": "x86_64", "cpu": "a CPU", "cpus": 2, "memory_mib": 4096, "kernel": "6.1", "docker": "26"}


def run(
    rate: float = 1000, noise: float = 0.02, *, rounds: int = 6, seed: int = 1, ratio: float = 1.0, **others
) -> Digest:
    """Return a run of one case and one claim, "at least", whose figures scatter by `noise`."""
    dice = np.random.default_rng(seed)
    rates = (rate * np.exp(dice.normal(0, noise, rounds))).tolist()
    ratios = (ratio * np.exp(dice.normal(0, noise, rounds))).tolist()
    found = Digest(
        run=f"run-{seed}",
        started=f"2026-11-25T00:00:{seed:09.3f}",
        experiment="ask",
        question="What?",
        preset="ask",
        conditions={},
        environment=MACHINE,
        engines={
            "mariadb": EngineDigest(
                "11.8",
                {"sync_binlog": "1"},
                {"none": CaseDigest({"throughput": rates, "latency_p50_ms": [1000 / rate for rate in rates]})},
                {"fast": ClaimDigest("It is fast.", Verdict.HOLDS, False, ratios, True)},
            )
        },
    )
    return replace(found, **others)


def on_another_machine(found: Digest) -> Digest:
    return replace(found, environment={**MACHINE, "cpus": 8})


def changed(found: Digest, **parts) -> Digest:
    """Return the run with other cases or claims."""
    return replace(found, engines={"mariadb": replace(found.engines["mariadb"], **parts)})


def several(rate: float = 1000, *, many: int = 5, seed: int = 1, effect: float = 0.0, **others) -> list[Digest]:
    """Return equal runs, whose rates differ by `effect` in addition to what `run` makes of them."""
    dice = np.random.default_rng(seed)
    effects = np.exp(dice.normal(0, effect, many)) if effect else [1.0] * many
    return [run(rate * each, seed=1000 * seed + at, **others) for at, each in enumerate(effects)]


def compare(before, after, margin: float, figures=()) -> comparison.Comparison:
    """Compare runs; a single one is a side as well."""
    sides = [each if isinstance(each, list) else [each] for each in (before, after)]
    return comparison.compare(sides[0], sides[1], margin, figures)
