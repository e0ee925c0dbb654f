"""Does a drill say what replicas had received, what was errant, when there were two sources, and what was refused?"""

import msgspec
import pytest
from replication_lab import faults
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.drill.drill import Failover, parse_drill, setting_of
from replication_lab.model.drill.drill_result import judge, two_sources_s
from replication_lab.model.drill.evidence import FaultEvidence, Position
from replication_lab.model.drill.history import Attempt, Copy, Outcome
from replication_lab.report.drill_text import text
from replication_lab.runner import drill_settings
from replication_lab.world import catalogue
from replication_lab.world.mysql.semisync import LONGEST_MS, SemiSync, SemiSyncStatus

from tests.unit.synthetic_drill import CUT, HISTORY, evidence, parsed, summed_up

THREE = catalogue.topology("semisync-3")
POSITIONS = {
    "source": Position(replicates=False, received=60, unapplied=0),
    "replica1": Position(replicates=True, received=60, unapplied=7, error=1032),
    "replica2": Position(replicates=True, received=50, unapplied=0),
}


def acted(step=None, **changes):
    return FaultEvidence(step or parsed().steps[0], 2, 2.5, 5, 5.5, 6, [CUT], positions=POSITIONS, **changes)


def test_what_each_replica_had_received_is_a_figure_and_who_had_the_most():
    """The last acknowledgement of semi-sync came from there; the source itself is no replica."""
    figures = judge(evidence(acted=[acted()]), HISTORY).figures

    assert (figures["received_unapplied.replica1"], figures["received_unapplied.replica2"]) == (7, 0)
    assert (figures["applier_error.replica1"], figures["applier_error.replica2"]) == (1032, 0)
    assert figures["received_most"] == "replica1"
    assert "received_unapplied.source" not in figures


def test_a_server_that_does_not_count_transactions_has_only_its_error():
    """MySQL 5.5 has no GTIDs."""
    old = {"replica": Position(replicates=True, error=1032)}
    figures = judge(evidence(acted=[msgspec.structs.replace(acted(), positions=old)]), HISTORY).figures

    assert figures["applier_error.replica"] == 1032
    assert not {"received_unapplied.replica", "received_most"} & set(figures)


def test_older_records_have_none_of_these_figures():
    """Their verdicts and files stay as they are."""
    figures = judge(evidence(), HISTORY).figures

    assert not {"errant", "two_sources_s", "received_most"} & set(figures)


def test_errant_rows_are_told_apart_by_what_their_clients_were_told():
    """An acknowledged row that only the replaced node has is lost; another one was acknowledged to nobody."""
    unanswered = Attempt(10, 1, "node1", 10.0, float("inf"), Outcome.UNKNOWN)
    given = evidence(acted=[acted(errant={"source": [(8, 10)]})], copies=[Copy("node1", [(0, 7)])])
    figures = judge(given, [*HISTORY, unanswered]).figures

    assert (figures["errant"], figures["errant.acknowledged"], figures["errant.unacknowledged"]) == (3, 2, 1)
    assert figures["lost"] == 2


def test_all_of_that_is_told_in_words():
    """Who acknowledged last, what was errant, and for how long there were two sources."""
    unanswered = Attempt(10, 1, "node2", 10.0, float("inf"), Outcome.UNKNOWN)
    kept = Attempt(20, 2, "node2", 8.0, 8.5, Outcome.ACKNOWLEDGED)
    history = [*HISTORY, unanswered, kept]
    copies = [Copy("node2", [(0, 6), (20, 20)])]
    said = text(summed_up(judge(evidence(acted=[acted(errant={"source": [(7, 10)]})], copies=copies), history)))

    assert "  received      the most: replica1; replica1 has not applied 7 transactions of it\n" in said
    assert "errant        4 rows only on replaced nodes: 3 acknowledged, so lost; 1 acknowledged to no client" in said
    assert "two sources" not in said, "a moment is no time"
    assert "two sources" not in text(summed_up(judge(evidence(), HISTORY)))


def _attempts(node, first, *ends):
    return [Attempt(first + n, 1, node, end - 0.1, end, Outcome.ACKNOWLEDGED) for n, end in enumerate(ends)]


@pytest.mark.parametrize(
    ("old", "new", "kept", "seconds"),
    [
        # The old source's rows from 3.0 s on are lost, and the new one serves from 4.0 s on.
        ([1.0, 3.0, 5.0, 6.0], [4.0, 7.0], {0, 100, 101}, 2.0),
        # It died before the new one served.
        ([1.0, 3.0], [4.0, 7.0], {0, 100, 101}, 0.0),
        # Two writers at once are no harm where nothing is lost: as in a cluster.
        ([1.0, 3.0, 5.0], [2.0, 4.0], {0, 1, 2, 100, 101}, 0.0),
    ],
)
def test_two_sources_are_those_of_which_only_one_is_kept(old, new, kept, seconds):
    """The time for which both acknowledged, by the ledger."""
    history = [*_attempts("old", 0, *old), *_attempts("new", 100, *new)]

    assert two_sources_s(history, [Copy("new", [(each, each) for each in sorted(kept)])]) == pytest.approx(seconds)


# --- a failover that has to be refused --------------------------------------------------------------------------------

REFUSED = """
about: a test's
clients: {source: 1}
steps: [{fault: kill, targets: [source], seconds: 1, failover: {to: replica2, expect: refused}}]
expected: []
"""


def drill_of(text=REFUSED):
    return parse_drill("test", THREE, text, faults.kinds())


@pytest.mark.parametrize(("refused", "verdict"), [("replica2 is behind", Verdict.HOLDS), ("", Verdict.REFUTED)])
def test_a_failover_that_has_to_be_refused_is_judged(refused, verdict):
    """With the reason that it was given; one that promoted the node refutes."""
    drill = drill_of()
    given = evidence(drill=drill, acted=[acted(drill.steps[0], refused=refused)])
    found = next(each for each in judge(given, HISTORY).judgements if "is refused" in each.sentence)

    assert (found.sentence, found.verdict) == ("a failover to replica2 is refused", verdict)
    assert (refused or "replica2 was promoted") in found.reason


def test_a_refusal_is_not_known_where_the_fault_is_not_proved():
    """A source that was not killed is a reason to refuse as well."""
    drill = drill_of()
    given = evidence(drill=drill, acted=[msgspec.structs.replace(acted(drill.steps[0], refused="x"), proofs=[])])
    found = next(each for each in judge(given, HISTORY).judgements if "is refused" in each.sentence)

    assert found.verdict is Verdict.UNKNOWN


def test_a_failover_is_a_node_or_says_what_to_expect():
    """Both forms name the node that is promoted."""
    step = drill_of().steps[0]
    assert (step.promotes, step.is_refused) == ("replica2", True)
    plain = drill_of(REFUSED.replace("{to: replica2, expect: refused}", "replica2")).steps[0]
    assert (plain.promotes, plain.is_refused) == ("replica2", False)
    assert Failover(to="replica2").expect == "promoted"


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("{to: nobody, expect: refused}", "nobody"),
        ("{to: replica2, expect: perhaps}", "perhaps"),
        ("{expect: refused}", "to"),
    ],
)
def test_a_failover_that_makes_no_sense_is_refused(refused, key, found):
    """An unknown node, an unknown result, no node."""
    assert found in refused(drill_of, REFUSED.replace("{to: replica2, expect: refused}", key)).found


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_setting_may_be_one_nodes(refused):
    """NODE.VARIABLE; a node that is not there is refused before anything starts."""
    assert (setting_of("sync_binlog"), setting_of("replica1.sync_binlog")) == (
        ("", "sync_binlog"),
        ("replica1", "sync_binlog"),
    )
    text = f"{REFUSED}settings: {{nobody.sync_binlog: 0}}\n"
    assert "nobody" in refused(drill_of, text).found


def test_each_node_gets_the_settings_of_all_and_its_own():
    """Its own comes last."""
    drill = drill_of(f"{REFUSED}settings: {{sync_binlog: 1, replica1.sync_binlog: 0, replica1.read_only: 1}}\n")

    assert drill_settings._of_node(drill, "replica1") == {"sync_binlog": 0, "read_only": 1}
    assert drill_settings._of_node(drill, "replica2") == {"sync_binlog": 1}


def test_a_source_may_wait_without_an_end_and_for_several_replicas(monkeypatch):
    """What it had comes back afterwards."""
    asked = []
    had = SemiSyncStatus(True, True, 1, 0, 0, 0, "AFTER_SYNC", 9000, 1)
    monkeypatch.setattr(SemiSync, "status", lambda _: had)
    monkeypatch.setattr(SemiSync, "set", lambda _, *how: asked.append(how))
    drill = drill_of(f"{REFUSED}semisync: {{timeout_ms: infinite, acknowledgements: 2}}\n")

    class Nodes:
        def writer(self):
            return None

    with drill_settings.applied(Nodes(), drill):
        assert asked == [(True, None, LONGEST_MS, 2)]
    assert asked[1:] == [(True, "AFTER_SYNC", 9000, 1)]
