"""What the witnesses of a lab see while something is done to it."""

from replication_lab.model.core.verdict import Verdict
from replication_lab.witnesses.witness import observing
from replication_lab.world import clock


def doubts_of(result):
    """Return why a drill proves nothing; each of its verdicts is UNKNOWN, for the first of these reasons."""
    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert result.exit_code == 3
    return "; ".join(result.doubts)


def proof_while(lab, obligation, act):
    """Return the proof of an obligation from a second before an action to a second after it."""
    with observing(lab) as witnesses:
        clock.pause(1)
        began = clock.timer()
        act()
        clock.pause(1)
        (seen,) = (each for each in witnesses.observations(began) if each.obligation == obligation)
        return seen.proof((0, clock.timer() - began))
