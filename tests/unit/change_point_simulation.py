"""How soon a change between runs shows.

`python tests/unit/change_point_simulation.py` prints what docs/comparing.md says of it.
"""

import numpy as np
from replication_lab.model.comparing.over_time import FEWEST_RUNS, change_points

BEFORE, MOST_AFTER = 12, 20
NEVER = MOST_AFTER + 1


def false_alarms(runs: int, series: int, seed: int = 3) -> float:
    """Return the share of series in which a change is found although there is none."""
    dice = np.random.default_rng(seed)
    return float(np.mean([bool(change_points(dice.normal(0, 1, runs))) for _ in range(series)]))


def false_alarms_of_looks(runs: int, series: int, seed: int = 3) -> float:
    """Return the share of series without a change in which one is found after any run from the eighth on."""
    dice = np.random.default_rng(seed)
    return float(np.mean([_is_ever_seen(dice.normal(0, 1, runs)) for _ in range(series)]))


def _is_ever_seen(values) -> bool:
    return any(change_points(values[:n]) for n in range(FEWEST_RUNS, len(values) + 1))


def delays(change: float, noise: float, series: int, seed: int = 3) -> list[int]:
    """Return after how many runs at the new level each series shows the change; NEVER if not within MOST_AFTER."""
    dice = np.random.default_rng(seed)
    return [_delay(dice.normal(0, noise, BEFORE + MOST_AFTER), np.log(1 - change)) for _ in range(series)]


def _delay(values, step: float) -> int:
    values[BEFORE:] += step
    seen = (n for n in range(1, MOST_AFTER + 1) if _is_seen(values[: BEFORE + n]))
    return next(seen, NEVER)


def _is_seen(values) -> bool:
    return any(abs(at - BEFORE) <= 2 for at in change_points(values))


def table() -> str:
    """Return the rows of how many runs it takes until a change shows."""
    return "\n".join(_row(change, noise) for change in (0.05, 0.1, 0.2) for noise in (0.02, 0.05))


def _row(change: float, noise: float) -> str:
    found = delays(change, noise, 200)
    median, shown = np.median(found), np.mean([delay < NEVER for delay in found])
    told = f"{median:.0f}" if median < NEVER else f"more than {MOST_AFTER}"
    return f"| {100 * change:.0f} % | {100 * noise:.0f} % | {told} | {100 * shown:.0f} % |"


def sentences() -> list[str]:
    """Return what the page says of false alarms."""
    none, *others = [f"{100 * share:.1f} %" if (share := false_alarms(n, 1000)) else "none" for n in (8, 12, 20, 40)]
    series = f"{none} of 8 runs, {others[0]} of 12, {others[1]} of 20 and {others[2]} of 40 showed one"
    looks = f"{100 * false_alarms_of_looks(20, 300):.1f} % showed one at some time within 20 runs"
    return [
        f"Of 1 000 simulated series without a change, {series}",
        f"of 300 simulated series without a change, {looks}",
    ]


if __name__ == "__main__":
    print(table(), *sentences(), sep="\n")
