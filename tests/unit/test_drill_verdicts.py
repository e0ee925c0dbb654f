"""Are drills judged by their evidence alone, and never green where something is not known?"""

import msgspec
import pytest
from replication_lab.model.core.event import End
from replication_lab.model.core.noise import Noise
from replication_lab.model.core.observation import Happened, Observation
from replication_lab.model.core.verdict import Verdict, exit_code
from replication_lab.model.drill import drill_result
from replication_lab.model.drill.drill import Expectation
from replication_lab.model.drill.drill_result import RECOVERED, judge
from replication_lab.model.drill.evidence import FaultEvidence, Looked, NoiseWhile, View
from replication_lab.model.drill.history import Copy
from replication_lab.model.record.record import Record
from replication_lab.replication.galera import GaleraCluster
from replication_lab.report.drill_text import text
from replication_lab.runner import drill_set

from tests.unit.synthetic_drill import ALONE, CUT, HISTORY, evidence, opening, parsed, summed_up


def test_a_drill_that_went_as_it_should_holds():
    """Exit status 0."""
    result = judge(evidence(), HISTORY)

    assert [one.verdict for one in result.judgements] == [Verdict.HOLDS, Verdict.HOLDS]
    assert result.exit_code == 0
    assert (result.figures["view.node3"], result.figures["histories"]) == ("non-Primary", 1)
    assert result.figures["redundancy_back_s"] == 0.5


def test_the_most_that_a_replica_lagged_is_that_of_the_time_of_the_fault():
    """An idle applier reports none, so one look at the end would miss it; looks before and after do not count."""
    acted = FaultEvidence(parsed().steps[0], 2, 2.5, 5, 5.5, 6, [CUT], {"node3": View("replicating", behind_s=0)})
    lags = [(1.9, 9000), (2.6, None), (3.6, 3600), (4.6, 0), (5.1, 8000)]
    looked = [Looked(at, "node3", View("replicating", behind_s=lag)) for at, lag in lags]
    figures = judge(evidence(acted=[acted], looked=looked), HISTORY).figures

    assert (figures["behind_s.node3"], figures["most_behind_s.node3"]) == (0, 3600)
    assert "most_behind_s.node1" not in figures


@pytest.mark.parametrize(("acted", "most"), [(None, 7), ([], 900)], ids=["a fault", "no fault"])
def test_the_longest_queue_is_that_of_the_time_of_the_fault(acted, most):
    """Without a fault it is that of the whole load; a queue that no node reported has no figure."""
    lengths = [(1.0, 900), (2.6, 7), (4.6, 0), (5.1, 40)]
    looked = [Looked(at, "node3", View("Primary", queues={"receive": many, "send": 0})) for at, many in lengths]
    figures = judge(evidence(looked=looked, **({} if acted is None else {"acted": acted})), HISTORY).figures

    assert (figures["receive_queue.node3"], figures["send_queue.node3"]) == (most, 0)
    assert "receive_queue.node1" not in figures


def test_a_fault_that_stays_has_no_recovery():
    """No redundancy that is back, no phase after it; the report says that it stayed."""
    step = msgspec.structs.replace(parsed().steps[0], recover="none")
    what = msgspec.structs.replace(parsed(), steps=[step])
    acted = FaultEvidence(step, 2, 2.5, 10, 10, 10, [CUT], {"node3": ALONE})
    result = judge(evidence(drill=what, acted=[acted]), HISTORY)

    assert "redundancy_back_s" not in result.figures and result.exit_code == 0
    assert [phase.name for phase in result.phases] == ["before", "injection", "fault"]
    assert "it stayed until the result was read" in text(summed_up(result))


def test_a_lost_row_refutes():
    """Exit status 1: it was expected to hold."""
    result = judge(evidence(copies=[Copy("node1", [(0, 8)])]), HISTORY)

    assert result.judgements[0].verdict is Verdict.REFUTED
    assert (result.judgements[0].measured, result.exit_code) == (1, 1)


def test_every_drill_of_a_replicated_disk_compares_both_of_them():
    """Rows are read where the server is; the other disk may differ all the same."""
    drills = [each for name in ("drbd", "drbd-ha") for each in drill_set.known()[name]]

    assert drills
    for each in drills:
        assert [wanted.equals for wanted in each.expected if wanted.figure == "differing_kib"] == [0], each.name


def test_disks_that_differ_refute():
    """However well all rows were read."""
    equal = Expectation("both disks are equal", "differing_kib", equals=0)
    what = msgspec.structs.replace(parsed(), expected=[equal])
    verdicts = [
        judge(evidence(drill=what, compared=compared), HISTORY).judgements[0].verdict
        for compared in ({"differing_kib": 0}, {"differing_kib": 4}, {})
    ]

    assert verdicts == [Verdict.HOLDS, Verdict.REFUTED, Verdict.UNKNOWN]


UNSERVED = Expectation("no client is answered during the fault", "during.acknowledged", equals=0)


def of_one_that_does_not_recover(**changes):
    what = msgspec.structs.replace(parsed(), expected=[*parsed().expected, UNSERVED])
    found = judge(evidence(drill=what, unrecovered="no node has a majority", copies=[], **changes), HISTORY)
    return {one.sentence: (one.verdict, one.reason) for one in found.judgements}, found.exit_code


def test_what_a_drill_saw_before_its_recovery_failed_is_judged():
    """The missing recovery is a verdict of its own, with its cause; what the copies hold is not known."""
    verdicts, code = of_one_that_does_not_recover()

    assert verdicts[UNSERVED.says][0] is Verdict.REFUTED
    assert verdicts[RECOVERED.says] == (Verdict.REFUTED, "no node has a majority")
    assert verdicts["nothing is lost"][0] is Verdict.UNKNOWN
    assert code == 1


@pytest.mark.parametrize(("unrecovered", "verdict"), [("two clusters", Verdict.REFUTED), ("", Verdict.HOLDS)])
def test_a_drill_whose_file_knows_that_it_does_not_recover_is_judged_by_its_file(unrecovered, verdict):
    """Once, with the cause; a recovery where none is known is a changed verdict."""
    known = Expectation("it recovers", "recovered", equals=1, expect=Verdict.REFUTED, because="nothing joins them")
    what = msgspec.structs.replace(parsed(), expected=[known])
    found = judge(evidence(drill=what, unrecovered=unrecovered), HISTORY).judgements

    (told,) = (each for each in found if each.figure == "recovered")
    assert (told.sentence, told.verdict, told.changed) == ("it recovers", verdict, not unrecovered)
    assert unrecovered in told.reason


def test_a_recovery_that_fails_on_a_noisy_machine_or_beside_a_doubt_is_unknown():
    """Slowness of the machine, or something that others did, may be its cause."""
    busy = NoiseWhile(5.0, 9.0, Noise(quiet=False, why="other programs used 60% of the CPUs"))
    noisy, _ = of_one_that_does_not_recover(noise=[busy])
    doubted, _ = of_one_that_does_not_recover(doubts=["the engine was restarted"])

    assert noisy[RECOVERED.says][0] is Verdict.UNKNOWN and "on a noisy machine" in noisy[RECOVERED.says][1]
    assert doubted[RECOVERED.says] == (Verdict.UNKNOWN, "the engine was restarted")


def test_what_a_witness_saw_against_a_drill_makes_everything_unknown():
    """Also if it was observed besides what had to be."""
    meddled = Observation(
        "no other program changed a link", -1.0, 11.0, contrary=[Happened(3.4, "curl sent DELETE /proxies")]
    )
    result = judge(evidence(observations=[meddled]), HISTORY)

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert result.judgements[0].reason == "no other program changed a link: at 3.4 s curl sent DELETE /proxies"


def test_an_obligation_of_the_record_that_nobody_observed_is_not_proved(tmp_path):
    """A record of today names what has to be proved; evidence without it proves nothing."""
    wanted = msgspec.structs.replace(opening(parsed()), obligations=["no other program changed a link"])
    (result,) = drill_set.results(tmp_path, Record([wanted, evidence(), End(why="done")]))

    assert result.doubts[0] == "not verified: no other program changed a link: no witness observed it"


def test_a_refutation_that_is_known_is_as_expected():
    """The verdict is data, with its reason."""
    known = Expectation("nothing is lost", "lost", equals=0, expect=Verdict.REFUTED, because="it is asynchronous")
    lossy = msgspec.structs.replace(parsed(), expected=[known])

    assert judge(evidence(drill=lossy, copies=[Copy("node1", [(0, 8)])]), HISTORY).exit_code == 0
    assert judge(evidence(drill=lossy), HISTORY).exit_code == 1
    assert "Known: it is asynchronous" in text(summed_up(judge(evidence(drill=lossy), HISTORY)))


def test_a_fault_that_was_not_seen_makes_everything_unknown():
    """With the reason in words; unknown is never green."""
    through = msgspec.structs.replace(CUT, found="a new connection still gets an answer", ok=False)
    acted = msgspec.structs.replace(evidence().acted[0], proofs=[through])
    result = judge(evidence(acted=[acted]), HISTORY)

    assert result.judgements[0].verdict is Verdict.UNKNOWN
    assert "a new connection still gets an answer" in result.judgements[0].reason
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("changes", "history", "why"),
    [
        ({"doubts": ["node3 did not come back"]}, HISTORY, "did not come back"),
        ({"copies": []}, HISTORY, "no copy was read"),
        ({}, [], "no statement was acknowledged"),
        ({"acted": []}, HISTORY, "only 0 of 1 steps were carried out"),
        ({"acted": [msgspec.structs.replace(evidence().acted[0], proofs=[])]}, HISTORY, "cut on node3: no proof"),
    ],
)
def test_what_is_not_known_is_unknown(changes, history, why):
    """A lab that failed, a checker that crashed, a load that did nothing, a fault that never struck or proved it."""
    result = judge(evidence(**changes), history)

    assert result.judgements[0].verdict is Verdict.UNKNOWN
    assert why in result.judgements[0].reason
    assert result.exit_code == 3


def test_a_figure_that_is_missing_or_of_another_kind_is_unknown():
    """A text cannot be at least a number; an error that never came counts as zero."""
    asked = [
        Expectation("a", "returned.node3", equals="IST"),
        Expectation("b", "view.node3", at_least=3),
        Expectation("c", "during.node1.error.1047", equals=0),
    ]
    result = judge(evidence(drill=msgspec.structs.replace(parsed(), expected=asked)), HISTORY)

    assert [one.verdict for one in result.judgements[:3]] == [Verdict.UNKNOWN, Verdict.UNKNOWN, Verdict.HOLDS]


def test_the_exit_status_is_the_worst():
    """A changed verdict before an unknown one before none."""
    good, bad = judge(evidence(), HISTORY), judge(evidence(copies=[Copy("node1", [(0, 8)])]), HISTORY)
    unknown = drill_result.not_done(parsed(), "killed")

    held, open_, changed = (each.judgements for each in (good, unknown, bad))

    assert [exit_code(each) for each in ([], held, held + open_, open_ + changed)] == [3, 0, 3, 1]


# --- how nodes come back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "by"),
    [
        ("WSREP: Shifting DONOR/DESYNCED -> JOINED (TO: 3)\nWSREP: Shifting JOINED -> SYNCED (TO: 3)", None),
        ("WSREP: Shifting SYNCED -> OPEN (TO: 18)\nWSREP: Receiving IST: 4 writesets, seqnos 19-22", ("IST", 4)),
        ("WSREP: Shifting CLOSED -> OPEN (TO: 0)\nWSREP: Shifting JOINED -> SYNCED (TO: 13)", ("nothing", 0)),
        ("WSREP: Shifting OPEN -> PRIMARY\n[INFO] mariabackup SST completed on joiner", ("SST", 0)),
        ("[galera] leads: no node has a later position than U:7\nWSREP: Shifting CLOSED -> OPEN (TO: 0)", ("led", 0)),
    ],
)
def test_a_nodes_log_tells_how_it_came_back(log, by):
    """A donor never left; a joiner says what it was sent."""
    assert GaleraCluster.returned(log) == by
