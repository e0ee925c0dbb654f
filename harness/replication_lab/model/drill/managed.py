"""Figures of a drill under a failover manager: failovers that came, that did not come, and that were not needed."""

from collections.abc import Iterator, Sequence

from replication_lab.model.drill.checkers import Figures
from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.evidence import Evidence, FaultEvidence

# The fault that is a planned change.
PLANNED = "switchover"
CAME = Expectation("a failover comes each time that one is needed", "not_failed_over", equals=0)
NONE_FALSE = Expectation("no failover comes where the source serves again by itself", "false_failovers", equals=0)


def of_manager(evidence: Evidence) -> Figures:
    """Return the figures about the manager of a drill; none without one, or before its first fault had ended."""
    if not evidence.drill.manager or not evidence.acted:
        return {}
    return {
        "failovers": sum(len(_unplanned(acted, evidence)) for acted in evidence.acted),
        "not_failed_over": sum(_is_needed(acted) and not _in_time(acted, evidence) for acted in evidence.acted),
        # A source that ended did not serve again by itself, but when the fault was undone.
        "false_failovers": sum(
            len(_unplanned(acted, evidence)) - len(_in_time(acted, evidence))
            for acted in evidence.acted
            if not acted.ended
        ),
        "left_to_do": sum(len(acted.left) for acted in evidence.acted),
    }


def expected_of(evidence: Evidence) -> Iterator[Expectation]:
    """Yield what is expected of each manager, unless the drill's file has an expectation about the same figure."""
    if evidence.drill.manager:
        own = {each.figure for each in evidence.drill.expected}
        yield from (each for each in (CAME, NONE_FALSE) if each.figure not in own)


def _is_needed(acted: FaultEvidence) -> bool:
    """Return whether the source would not have served again by itself: the drill's file says so."""
    return bool(acted.step.failover) and not acted.step.is_refused


def _unplanned(acted: FaultEvidence, evidence: Evidence) -> Sequence[tuple[float, str]]:
    """Return the failovers of a step; in a planned change its target and the source before are told to take writes."""
    told = {target for spec in acted.step.fault_specs if spec.fault == PLANNED for target in spec.targets}
    if told:
        took = evidence.writable.items()
        told |= {node for node, own in took if any(begin <= acted.broke <= end for begin, end in own)}
    return [one for one in acted.promoted if one[1] not in told]


def _in_time(acted: FaultEvidence, evidence: Evidence) -> Sequence[tuple[float, str]]:
    """Return the failovers that were needed: those that came while the source was lost."""
    return [one for one in _unplanned(acted, evidence) if one[0] < acted.healed] if _is_needed(acted) else []
