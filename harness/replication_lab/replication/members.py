"""Sentences of the live view for a cluster that excludes members which do not answer."""

from replication_lab.model.live.explained import Rule

RULES = (
    Rule(
        lambda now: now.stalled,
        lambda now: (
            f"No commit was acknowledged {now.stalled_for}{now.because}: the cluster waits until it has excluded "
            "the nodes that do not answer."
        ),
    ),
    Rule(
        lambda now: bool(now.others),
        lambda now: f"The cluster continues without some of its nodes ({now.away}){now.because}.",
    ),
)
