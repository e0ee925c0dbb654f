"""An application seen from its own users: a probe asked again and again during a drill, and what it answered."""

from collections.abc import Iterator, Sequence
from statistics import median, quantiles

import msgspec

# The phases of a drill, in their order.
BEFORE, DURING, AFTER = "before", "during", "after"
PHASES = (BEFORE, DURING, AFTER)
# With fewer values the 95th percentile would be almost the same as the maximum.
FEWEST_FOR_P95 = 20


class Probed(msgspec.Struct, frozen=True):
    """One probe: when it began, in seconds since the load began, how long it took, and whether it succeeded."""

    at: float
    seconds: float
    ok: bool

    @property
    def ended(self) -> float:
        return self.at + self.seconds


class Application(msgspec.Struct, frozen=True):
    """What was asked of an application, in which service (empty: from this machine), and every answer."""

    probe: str
    service: str = ""
    probed: list[Probed] = []


def figures(application: Application | None, windows: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return the success rate and the latency of an application in each phase, and its time to recover.

    `windows` are the times in which faults acted. A probe belongs to the phase in which it began. The time to recover
    is from the end of the last fault to the first success of a probe that began afterwards; it is missing if none did.
    """
    if application is None or not windows:
        return {}
    found: dict[str, float] = {}
    for phase in PHASES:
        found |= dict(_of_phase(phase, [each for each in application.probed if _phase(each, windows) == phase]))
    undone = windows[-1][1]
    back = [each.ended for each in application.probed if each.at >= undone and each.ok]
    return found | ({"app.recovered_s": round(min(back) - undone, 3)} if back else {})


def _phase(probed: Probed, windows: Sequence[tuple[float, float]]) -> str:
    if probed.at < windows[0][0]:
        return BEFORE if probed.ended < windows[0][0] else DURING
    # Between two faults the application recovers from the first one.
    return DURING if any(begin <= probed.at < end for begin, end in windows) else AFTER


def _of_phase(phase: str, probed: Sequence[Probed]) -> Iterator[tuple[str, float]]:
    good = [each.seconds * 1000 for each in probed if each.ok]
    yield f"app.{phase}.probes", len(probed)
    if probed:
        yield f"app.{phase}.success", round(len(good) / len(probed), 4)
    if good:
        yield f"app.{phase}.p50_ms", round(median(good), 3)
    if len(good) >= FEWEST_FOR_P95:
        yield f"app.{phase}.p95_ms", round(quantiles(good, n=20, method="inclusive")[-1], 3)


def sentences(found: dict[str, float | str]) -> list[str]:
    """Return the figures of an application in words, a line for each phase; empty without a probe."""
    said = []
    for phase in PHASES:
        many = found.get(f"app.{phase}.probes")
        if many is None:
            continue
        success = found.get(f"app.{phase}.success")
        line = "not probed" if success is None else f"{success:.1%} of {many} probes succeeded"
        for name, words in (("p50_ms", "median"), ("p95_ms", "p95")):
            if (value := found.get(f"app.{phase}.{name}")) is not None:
                line += f", {words} {value:.0f} ms"
        said.append(f"{phase}: {line}")
    if said:
        back = found.get("app.recovered_s")
        said.append(
            "no success after the fault" if back is None else f"success {back:.2f} s after the fault was undone"
        )
    return said
