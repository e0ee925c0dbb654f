"""Figures of a drill about its source and replicas: what they had received, errant rows, two sources at once."""

from collections import Counter
from collections.abc import Sequence

from replication_lab.model.drill.checkers import Figures, lost
from replication_lab.model.drill.evidence import Evidence, FaultEvidence
from replication_lab.model.drill.history import Attempt, Copy, Outcome, numbers


def of_sources(evidence: Evidence, history: Sequence[Attempt]) -> Figures:
    """Return the figures about source and replicas; none for other kinds of replication, and for older records."""
    if not any(acted.positions for acted in evidence.acted):
        return {}
    figures: Figures = {}
    for acted in evidence.acted:
        figures |= _of_positions(acted)
    if any(acted.errant for acted in evidence.acted):
        figures |= _errant(evidence.acted, history)
    if evidence.copies:
        figures["two_sources_s"] = round(two_sources_s(history, evidence.copies), 3)
    return figures


def _of_positions(acted: FaultEvidence) -> Figures:
    """Return what each replica had received and not applied before the recovery, and which had received the most."""
    figures: Figures = {}
    replicas = {node: found for node, found in acted.positions.items() if found.replicates}
    for node, found in replicas.items():
        figures[f"applier_error.{node}"] = found.error
        if found.unapplied is not None:
            figures[f"received_unapplied.{node}"] = found.unapplied
    known = {node: found.received for node, found in replicas.items() if found.received is not None}
    if known:
        # With semi-sync, the last acknowledgement came from one of these.
        figures["received_most"] = " ".join(sorted(node for node, many in known.items() if many == max(known.values())))
    return figures


def _errant(acted: Sequence[FaultEvidence], history: Sequence[Attempt]) -> Figures:
    """Return the rows that only replaced nodes had, by what their clients were told."""
    rows = {number for each in acted for ranges in each.errant.values() for number in numbers(ranges)}
    told = Counter(attempt.outcome for attempt in history if attempt.id in rows)
    acknowledged = told[Outcome.ACKNOWLEDGED]
    return {"errant": len(rows), "errant.acknowledged": acknowledged, "errant.unacknowledged": len(rows) - acknowledged}


def two_sources_s(history: Sequence[Attempt], copies: Sequence[Copy]) -> float:
    """Return the longest time in seconds in which two nodes acknowledged writes of which only the one's were kept.

    It is the time that the acknowledgements of lost rows on one node and of kept rows on another one have in common.
    """
    gone = lost(history, copies)
    spans: dict[tuple[str, bool], tuple[float, float]] = {}
    for attempt in history:
        if attempt.acknowledged:
            key = attempt.node, attempt.id in gone
            first, last = spans.get(key, (attempt.ended, attempt.ended))
            spans[key] = min(first, attempt.ended), max(last, attempt.ended)
    common = [
        min(one[1], other[1]) - max(one[0], other[0])
        for (node, is_gone), one in spans.items()
        for (another, is_other_gone), other in spans.items()
        if is_gone and not is_other_gone and node != another
    ]
    return max([0.0, *common])
