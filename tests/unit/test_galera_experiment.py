"""Does galera_vs_semisync compare like with like, and see what goes wrong behind its back?"""

from dataclasses import replace

import pytest
from msgspec import structs
from replication_lab import experiments
from replication_lab.experiments.galera_vs_semisync import CLIENTS, THREE, TWO
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.world import catalogue
from replication_lab.world.journal import Journal

from tests.fakes import lab, troubles
from tests.fakes.lab import FakeNode
from tests.fakes.world import FakeWorld

# The model runs the whole experiment.
pytestmark = pytest.mark.whole

KNOWN = experiments.load("galera_vs_semisync")
# The model keeps the laws, so that nothing is expected of it but that they hold; what real engines refute is data.
# Its seconds cost nothing, and ten of them hold enough commits of 85 ms each for the hot row to have a rate. Readers of
# the bank read in real time, at least once a node and round: ten rounds hold the thirty reads that a claim needs.
SMALL = Preset(
    "brief",
    3,
    10,
    {"rows": 64, "seconds": 0, "most_seconds": 0, "far_seconds": 0.2, "hot_seconds": 10},
    cases=KNOWN.preset("brief").cases,
)
LAWFUL = replace(KNOWN, data=structs.replace(KNOWN.data, expected=[]), presets={"brief": SMALL})


def only(*claims: str):
    """Return the experiment with these claims alone, and the cases that they need."""
    chosen = tuple(claim for claim in KNOWN.claims if claim.id in claims)
    cases = tuple(dict.fromkeys(case for claim in chosen for case in claim.relation.cases))
    return replace(LAWFUL, claims=chosen, presets={"brief": replace(SMALL, cases=cases)})


def verdicts(summary) -> dict[str, Verdict]:
    return {claim.id: claim.verdict for claim in summary.claims}


LAWS = {
    "galera-commit-waits",
    "galera-commit-is-one-round-trip",
    "after-sync-commit-is-one-round-trip",
    "clients-add-up",
    "hot-galera-1-once-a-round-trip",
    "hot-galera-3-once-a-round-trip",
    "hot-galera-3-loses-nothing",
    "hot-galera-3-copies-agree",
    "counters-lan-loses-nothing",
    "counters-lan-copies-agree",
    "bank-lan-loses-nothing",
    "bank-lan-copies-agree",
    "bank-lan-sum-is-kept",
    "conflicts-are-deadlocks",
    "conflicts-fail-certification",
    "conflicts-abort-locally",
    "slow-node-throttles-galera",
}


@pytest.fixture(scope="module")
def in_model():
    """Run the brief preset in a world that keeps the laws: (summary, record, world)."""
    from replication_lab.report import summarise
    from replication_lab.runner.rounds import Run
    from replication_lab.world import at_once, clock

    with pytest.MonkeyPatch.context() as patch:
        world, book = FakeWorld(), Pages()
        patch.setattr(clock, "timer", world.clock.timer)
        patch.setattr(at_once, "of_each", world.clock.of_each)
        Run(RunRequest(LAWFUL, ["mariadb"], "brief", 7), book, world, lambda _line: None).run()
        yield summarise(LAWFUL, book.record), book.record, world


class Pages(Journal):
    """A journal that keeps its record in memory."""

    folder = None

    def __init__(self):
        from replication_lab.model.record.record import Record

        self.record = Record()

    def write(self, event):
        self.record = self.record.plus(event)

    def close(self):
        pass


def test_the_laws_hold_in_the_model(in_model):
    """Round trips, one row a round trip, no lost update, counted conflicts: all hold where the model keeps them."""
    summary, _, _ = in_model
    found = verdicts(summary)

    assert {claim: found[claim] for claim in LAWS} == dict.fromkeys(LAWS, Verdict.HOLDS)


def test_both_systems_are_measured_in_one_run(in_model):
    """One record holds a lab of each topology, and every round measures the cases of both."""
    _, record, world = in_model
    first = [m.case for m in record.measurements if m.round == 1]

    assert [lab.topology for lab in record.labs("mariadb")] == ["galera", "semisync-3"]
    assert sorted(first) == sorted(SMALL.cases)
    assert len(world.came_up) == len(world.taken_down) == 2


def test_what_the_preset_leaves_out_is_said(in_model):
    """Claims over cases that were not measured are left out, each with the reason, and are neither green nor red."""
    summary, _, _ = in_model
    reasons = {left.claim: left.reason for left in summary.not_judged}

    assert reasons["faster-than-after-sync2-lan-8"] == "the preset brief does not contain it"
    assert not reasons.keys() & verdicts(summary).keys()
    assert reasons.keys() | verdicts(summary).keys() == {claim.id for claim in KNOWN.claims}


def test_the_round_trip_is_that_of_all_links(in_model):
    """Six links were slowed and watched, and their typical round trip is a figure of the case."""
    _, record, _ = in_model
    far = record.quiet("mariadb", "galera-85ms-64")[1]

    assert len(far.faults) == 6 and all(fault.seen for fault in far.faults)
    assert far.figures["rtt_min_ms"] <= far.figures["rtt_p50_ms"]
    assert abs(far.figures["rtt_p50_ms"] - 85) < 1


def test_the_curves_show_what_was_measured(in_model):
    """A panel for each distance, a line for each system, a point for each number of clients of the preset."""
    summary, _, _ = in_model
    panels = summary.curves[0].panels

    assert [panel.title for panel in panels] == ["LAN, three copies", "85 ms, three copies"]
    assert {len(panel.lines) for panel in panels} == {3}
    measured = [{tuple(point.x for point in line.points) for line in panel.lines} for panel in panels]
    assert measured == [{(1, 8), (1, 8, 64)}, {(1, 64)}]


def test_the_presets_measure_what_they_say():
    """quick has all seven client counts on three copies, full has two copies as well, brief what the tests need."""
    quick, full = KNOWN.preset("quick"), KNOWN.preset("full")

    for systems, preset in ((THREE, quick), (THREE | TWO, full)):
        chosen = {case.name for case in KNOWN.chosen(preset)}
        assert {f"{system}-{d}-{n}" for system in systems for d in ("lan", "85ms") for n in CLIENTS} <= chosen
    of_quick, of_full = ([lab.topology for lab in KNOWN.labs(each, "mariadb")] for each in (quick, full))
    assert of_quick == ["galera", "semisync-3"]
    assert set(of_full) == {"galera", "semisync-3", "galera-2", "semisync"}
    assert full.sizes["rows"] == 100_000


def test_both_systems_have_as_many_copies():
    """Three against three, two against two, the same toxic on every link."""
    for systems, copies in ((THREE, 3), (TWO, 2)):
        assert {len(catalogue.topology(system["topology"]).nodes) for system in systems.values()} == {copies}
    for case in KNOWN.cases:
        links = [link.name for link in catalogue.topology(KNOWN.lab_of(case).topology).links]
        assert case.toxics in ({}, dict.fromkeys(links, catalogue.toxic("wan-85ms")))


def test_an_engine_without_galera_is_refused(fake_world, refused):
    """Before anything starts, and with the engines that have it."""
    labs = KNOWN.labs(KNOWN.preset("quick"), "mysql-8.0")
    error = refused(fake_world().make_ready, [labs], print, "run galera_vs_semisync")

    assert "has no galera" in error.found and "mariadb" in error.expected


# --- sabotage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "claim", "reason"),
    [
        (troubles.leave, "galera-commit-waits", "stayed in the cluster"),
        (troubles.take_toxics_off, "galera-commit-waits", "fault not seen"),
        (troubles.take_toxics_off, "after-sync-commit-is-one-round-trip", "fault not seen"),
        (troubles.fall_back, "after-sync-commit-is-one-round-trip", "semi-sync acknowledged every commit"),
        (troubles.fail_load, "galera-commit-waits", "ended with status 1"),
        (troubles.diverge, "galera-commit-waits", "node2 differs from node1"),
    ],
)
def test_a_sabotaged_load_is_never_judged(ran, monkeypatch, trouble, claim, reason):
    """A node that left, a toxic gone, a semi-sync that fell back: UNKNOWN with the reason, exit status 3."""
    # A node that left stays away here, and there is no wait for it.
    monkeypatch.setattr("replication_lab.probes.galera.wait_until_synced", lambda *_: None)
    summary, _, _ = ran(only(claim), preset="brief", meanwhile=trouble)

    assert verdicts(summary) == {claim: Verdict.UNKNOWN}
    assert reason in summary.claims[0].reason
    assert summary.exit_code == 3


@pytest.mark.parametrize("load", ["counters-lan", "hot-galera-3"])
def test_a_lost_update_is_seen(ran, load):
    """One acknowledged change that is not there afterwards refutes the claim."""
    summary, _, _ = ran(only(f"{load}-loses-nothing"), preset="brief", meanwhile=troubles.lose_an_update)

    assert summary.claims[0].verdict is Verdict.REFUTED


def test_copies_that_differ_are_seen(ran):
    """A sum that differs on one node refutes the claim that the copies agree, before the run's own comparison."""
    summary, record, _ = ran(only("counters-lan-copies-agree"), preset="brief", meanwhile=troubles.diverge)

    assert max(m.figures["diverged"] for m in record.measurements) > 0
    assert summary.claims[0].verdict is not Verdict.HOLDS


def test_a_slow_node_that_throttled_nothing_is_a_doubt(ran, monkeypatch):
    """A limit of the CPU that flow control did not notice proves nothing about flow control."""
    monkeypatch.setattr(lab, "PAUSED", 0)
    summary, _, _ = ran(only("slow-node-throttles-galera"), preset="brief")

    assert summary.claims[0].verdict is Verdict.UNKNOWN
    assert "flow control paused the cluster" in summary.claims[0].reason


@pytest.fixture
def windowed():
    """Return the experiment with the claim about send windows alone: its cases have 128 clients, a row for each."""
    chosen = only("windows-help-128")
    preset = chosen.preset("brief")
    return replace(chosen, presets={"brief": replace(preset, sizes=preset.sizes | {"rows": 128})})


def test_send_windows_that_a_node_does_not_keep_are_unknown(ran, windowed):
    """One node is back at the provider's own: what was measured is not wider windows."""

    def narrow(lab, _load):
        lab.node("node2").server().set_global(wsrep_provider_evs_send_window=4)

    summary, _, _ = ran(windowed, preset="brief", meanwhile=narrow)

    assert verdicts(summary) == {"windows-help-128": Verdict.UNKNOWN}
    assert "node2 has its send windows" in summary.claims[0].reason


def test_send_windows_that_all_nodes_keep_are_proved(ran, windowed):
    """The counter-check: each node is asked, in both cases of the claim, and none is doubted."""
    summary, record, _ = ran(windowed, preset="brief")
    asked = {proof.what for found in record.measurements for proof in found.proofs if proof.ok}

    assert {f"node{n} has its send windows (evs.send_window, evs.user_send_window)" for n in (1, 2, 3)} <= asked
    assert "send windows" not in summary.claims[0].reason


SLOWED = {"slow-node-throttles-galera": "node3", "slow-replica-does-not-throttle-semisync": "replica2"}


@pytest.mark.parametrize("claim", SLOWED)
def test_a_slow_node_that_was_held_back_is_not_doubted(ran, claim):
    """The counter-check: its limit is set, it runs into it, and the claim is judged."""
    summary, record, _ = ran(only(claim), preset="brief")
    proved = {proof.what for found in record.measurements for proof in found.proofs}

    assert {f"{SLOWED[claim]} is limited to 0.1 of a CPU", f"{SLOWED[claim]} reached its CPU limit"} <= proved
    assert verdicts(summary) == {claim: Verdict.HOLDS}


@pytest.mark.parametrize("claim", SLOWED)
def test_a_cpu_limit_that_is_not_set_is_unknown(ran, monkeypatch, claim):
    """The engine takes the order and does nothing: the node was as fast as the others."""
    monkeypatch.setattr(FakeNode, "limit_cpu", lambda *_: None)
    summary, _, _ = ran(only(claim), preset="brief")

    assert verdicts(summary) == {claim: Verdict.UNKNOWN}
    assert f"{SLOWED[claim]} is limited to 0.1 of a CPU" in summary.claims[0].reason


@pytest.mark.parametrize("claim", SLOWED)
def test_a_cpu_limit_that_is_never_reached_is_unknown(ran, monkeypatch, claim):
    """Not one period in which the node wanted more than it got: the limit slowed nothing."""
    monkeypatch.setattr(FakeNode, "throttled", lambda *_: 7)
    summary, _, _ = ran(only(claim), preset="brief")

    assert verdicts(summary) == {claim: Verdict.UNKNOWN}
    assert f"{SLOWED[claim]} reached its CPU limit" in summary.claims[0].reason


@pytest.mark.parametrize("claim", SLOWED)
def test_a_cpu_limit_that_somebody_takes_off_is_unknown(ran, claim):
    """During the load the node gets its CPU back."""
    node = SLOWED[claim]
    summary, _, _ = ran(
        only(claim), preset="brief", meanwhile=lambda lab, _: lab.node(_last(lab)).limit_cpu(0, 100_000)
    )

    assert verdicts(summary) == {claim: Verdict.UNKNOWN}
    assert f"{node} is limited to 0.1 of a CPU" in summary.claims[0].reason


def _last(lab) -> str:
    return lab.topology.nodes[-1].name


def test_a_toxic_on_a_lan_is_a_doubt(ran):
    """A toxic is added to a link of a case that is meant to have bare ones."""

    def slow(lab, _load):
        link = lab.link(lab.topology.links[0].name)
        if not link.toxics():
            link.add(ToxicBody("foreign", "latency", "upstream", {"latency": 30}))

    summary, _, _ = ran(only("slow-node-throttles-galera"), preset="brief", meanwhile=slow)

    assert "the links have no toxics" in summary.claims[0].reason


def test_the_cpu_limit_is_taken_off_again(ran):
    """After the run no node has a limit, whatever happened in the load."""
    labs = []
    ran(only("slow-node-throttles-galera"), preset="brief", meanwhile=lambda lab, _: labs.append(lab))

    assert {container.quota for lab in labs for container in lab._containers.values()} == {0}
