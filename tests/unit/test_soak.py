"""Are a soak's rounds drawn from the seed alone, can each be run, and is the shortest schedule found that fails?"""

import os
import subprocess
import sys
from itertools import combinations, pairwise

import msgspec
import pytest
from replication_lab import faults
from replication_lab import runs as running
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import End
from replication_lab.model.drill.drill_result import judge
from replication_lab.model.drill.history import Copy
from replication_lab.model.drill.soak import CUT, ROUND, can_act_at_once, choices, faults_of, shortest, with_faults
from replication_lab.report.drill_text import text
from replication_lab.runner import soak as soaks
from replication_lab.world import catalogue, clock, journal

from tests.unit.synthetic_drill import HISTORY, evidence, opening, parsed, summed_up

HOUR = 60
SOAKED = ("single", "async", "semisync", "semisync-3", "fanout", "chain", "raid", "galera", "group", "drbd")
LOST = [Copy("node1", [(0, 8)])]


def drawn(topology, seed=7, minutes=HOUR):
    return soaks.draw(catalogue.topology(topology), seed, minutes)


def steps_of(schedule):
    return [step for each in schedule.rounds.values() for step in each["steps"]]


# --- drawn ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", SOAKED)
def test_each_round_is_a_drill_that_can_be_run(topology):
    """As strictly as a drill's file is read."""
    drills = drawn(topology, minutes=10).drills()

    assert all(spec.at <= step.seconds for each in drills for step in each.steps for spec in step.fault_specs)
    assert all(each.expected and len(step.fault_specs) <= 2 for each in drills for step in each.steps)


@pytest.mark.parametrize("topology", ["drbd-ha", "galera-2"])
def test_a_topology_without_a_soak_is_refused(topology, refused):
    """A cluster manager would interfere; two nodes have no majority when one is gone."""
    assert f"no soak is defined for {topology}" in refused(drawn, topology).found


def test_the_same_seed_gives_the_same_rounds():
    """A longer soak begins with the rounds of a shorter one; another seed gives others."""
    long, short = drawn("semisync", minutes=60), drawn("semisync", minutes=5)

    assert list(long.rounds.items())[: len(short.rounds)] == list(short.rounds.items())
    assert drawn("semisync", seed=8).rounds != long.rounds


@pytest.mark.whole
def test_the_same_seed_gives_the_same_rounds_in_another_process():
    """The order of Python's sets differs between processes."""
    code = (
        "from tests.unit.test_soak import drawn; import sys; "
        "sys.stdout.buffer.write(b''.join(drawn(each).text() for each in ('galera', 'drbd', 'semisync')))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=catalogue.ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "harness"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert said[0] == said[1] != b""


def test_each_fault_of_the_file_is_drawn_on_some_topology():
    """And each load; what is never drawn should not be in the file."""
    data = soaks.data()
    by_topology = {name: choices(catalogue.topology(name), data, faults.kinds()) for name in SOAKED}
    found = {id(one.drawable) for known in by_topology.values() for one in known}

    assert [each for each in data.faults if id(each) not in found] == []
    for topology in ("single", "semisync", "galera", "drbd"):
        here = {one.drawable.fault for one in by_topology[topology]}
        assert here <= {one["fault"] for step in steps_of(drawn(topology)) for one in (step, *step.get("also", []))}


def pairs(topology, one_takes):
    found = choices(catalogue.topology(topology), soaks.data(), faults.kinds())
    return [pair for pair in combinations(found, 2) if can_act_at_once(*pair, one_takes)]


@pytest.mark.parametrize("topology", ["galera", "group", "drbd"])
def test_two_faults_at_once_leave_a_majority_and_a_copy(topology):
    """At most one of them takes a node, a link or a disk."""
    assert [pair for pair in pairs(topology, one_takes=True) if all(one.drawable.takes for one in pair)] == []
    assert pairs(topology, one_takes=True) and topology in soaks.data().one_takes


@pytest.mark.parametrize("topology", ["async", "semisync", "galera"])
def test_a_fault_of_a_link_is_not_drawn_beside_a_node_at_its_end_that_is_gone(topology):
    """No round trip could prove it; a cut is proved without one. Nothing is drawn twice for one target."""
    found = pairs(topology, one_takes=False)
    mixed = [sorted(pair, key=lambda one: one.of_link) for pair in found if pair[0].of_link != pair[1].of_link]
    beside = [link for node, link in mixed if node.drawable.takes == "node" and node.nodes & link.nodes]

    assert {link.drawable.fault for link in beside} == {CUT}
    assert [pair for pair in found if pair[0].target == pair[1].target] == []


@pytest.mark.parametrize("topology", ["async", "semisync", "drbd"])
def test_failovers_in_a_row_move_the_source_to_and_fro(topology):
    """The source is lost, the other node takes over; a link is cut in the first step alone."""
    several = [each["steps"] for each in drawn(topology).rounds.values() if len(each["steps"]) > 1]

    assert several
    for steps in several:
        assert all(step["targets"] != after["targets"] and step["failover"] for step, after in pairwise(steps[1:]))
        assert all("also" not in step and step["fault"] != CUT for step in steps[1:])


def test_what_a_topology_promises_is_promised_in_each_round():
    """Asynchronous replication loses rows when the replica takes over, and only then."""
    rounds = drawn("async").rounds.values()
    fails_over = [each for each in rounds if any("failover" in step for step in each["steps"])]

    assert fails_over and all("nothing-lost" not in each["promises"] for each in fails_over)
    assert all("nothing-lost" in each["promises"] for each in rounds if each not in fails_over)
    for topology in ("semisync", "galera", "group", "drbd"):
        assert all("nothing-lost" in each["promises"] for each in drawn(topology).rounds.values())


# --- run --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def soaked(runs, monkeypatch):
    """Return a record of two rounds that have not begun, and whether the next may begin after some evidence."""
    drills = [msgspec.structs.replace(parsed(), name=f"{ROUND}{number:03d}") for number in (1, 2)]
    written = journal.Journal("soak-galera", runs=runs)
    written.write(opening(*drills))

    def goes_on_after(seconds, **seen):
        now = [0.0]
        monkeypatch.setattr(clock, "timer", lambda: now[0])
        goes_on = soaks.until_failure(written, 10)
        before = goes_on()
        written.write(evidence(drill=drills[0], **seen))
        journal.ledger(written.folder, drills[0].name).write_bytes(b"")
        monkeypatch.setattr(soaks.drill_set.history, "parse", lambda _: (HISTORY,))
        now[0] = seconds
        return before, goes_on()

    yield written, goes_on_after
    written.close()


@pytest.mark.parametrize(
    ("seconds", "seen", "goes_on"),
    [
        (9, {}, True),
        (11, {}, False),
        (9, {"copies": LOST}, False),
        (9, {"copies": LOST, "doubts": ["no proof"]}, True),
    ],
    ids=["held", "time is over", "refuted", "in doubt"],
)
def test_a_soak_ends_with_its_time_or_the_first_round_that_fails(soaked, seconds, seen, goes_on):
    """What is not proved is no failure."""
    _, goes_on_after = soaked

    assert goes_on_after(seconds, **seen) == (True, goes_on)


def test_rounds_that_did_not_begin_have_no_verdict(soaked):
    """The time was over, or a round failed. If none began, each says why."""
    written, goes_on_after = soaked
    assert len(running.judge(written.folder).drills) == 2
    goes_on_after(11)
    written.write(End(why="done"))

    assert [each.name for each in running.judge(written.folder).drills] == [f"{ROUND}001"]


def test_a_round_is_one_line_and_one_that_fails_all_that_was_seen():
    """Hundreds of rounds are read from top to bottom."""
    drill = msgspec.structs.replace(parsed(), name=f"{ROUND}001")
    held, failed = (judge(evidence(drill=drill, **seen), HISTORY) for seen in ({}, {"copies": LOST}))

    assert text(summed_up(held)).splitlines()[0].startswith(f"HOLDS    {ROUND}001: a test's; 10 acknowledged")
    assert "0 lost" in text(summed_up(held)) and "longest stall" not in text(summed_up(held))
    assert "REFUTED (expected HOLDS)" in text(summed_up(failed)) and "1 lost" in text(summed_up(failed))


# --- the shortest schedule that fails ---------------------------------------------------------------------------------

ROUNDS = drawn("semisync", minutes=3).rounds


PLACES = faults_of(ROUNDS)


def injected(rounds):
    """Return each fault with its round, without the number of its step: that changes when others are left out."""
    return {
        (name, one["fault"], *one["targets"], step["seconds"])
        for name, each in rounds.items()
        for step in each["steps"]
        for one in (step, *step.get("also", []))
    }


@pytest.mark.parametrize("wanted", [PLACES[-1:], PLACES[-3:-1], [PLACES[2], PLACES[9], PLACES[-1]]])
def test_the_shortest_schedule_has_the_faults_that_matter_and_no_other(wanted):
    """Also of several rounds: state that one round leaves can make another one fail."""
    needed = with_faults(ROUNDS, wanted)

    assert shortest(ROUNDS, lambda rounds: injected(needed) <= injected(rounds), lambda: True) == needed


def test_a_failure_that_two_runs_of_three_do_not_show_is_found():
    """The times of a real machine differ, so a part that held once may still fail."""
    needed, ran = with_faults(ROUNDS, PLACES[-2:]), []

    def seldom_fails(rounds):
        ran.append(rounds)
        return injected(needed) <= injected(rounds) and ran.count(rounds) == 3

    assert shortest(ROUNDS, seldom_fails, lambda: True) == needed


def test_a_step_keeps_its_time_and_its_failover_without_its_first_fault():
    """The other fault takes its place."""
    both = {
        "fault": "kill",
        "targets": ["a"],
        "seconds": 3,
        "failover": "b",
        "also": [{"fault": CUT, "targets": ["c"]}],
    }
    rounds = {"one": {"about": "x", "steps": [both]}}

    assert with_faults(rounds, [("one", 0, 1)]) == {
        "one": {"about": "x", "steps": [{"fault": CUT, "targets": ["c"], "seconds": 3, "failover": "b"}]}
    }
    assert with_faults(rounds, faults_of(rounds)) == rounds
    assert with_faults(rounds, []) == {}


def test_the_search_ends_with_its_time():
    """What is left then is what was seen to fail last."""
    tried = []

    def fails(rounds):
        tried.append(rounds)
        return True

    assert shortest(ROUNDS, fails, lambda: len(tried) < 1) == tried[0]
    assert shortest(ROUNDS, fails, lambda: False) == ROUNDS


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def failing(runs, monkeypatch):
    """Let each run end at the first round with a kill, which fails; return the rounds that were run each time."""
    ran = []

    def soak(schedule, _engine, _seconds, _tell):
        done = []
        for drill in schedule.drills():
            killed = any(spec.fault == "kill" for spec in drill.fault_specs)
            done.append(judge(evidence(drill=drill, copies=LOST if killed else evidence().copies), HISTORY))
            if killed:
                break
        ran.append(schedule.rounds)
        runs.mkdir(exist_ok=True)
        return runs, summed_up(*done)

    monkeypatch.setattr(running, "soak", soak)
    return ran


def test_a_soak_that_fails_prints_its_seed_and_the_shortest_schedule(lab, failing, runs):
    """The file that it names repeats the failure."""
    status, _, said = lab("soak", "--duration", "5min", "--seed", "3")
    shortest_one = soaks.read(runs / "shortest.yaml")

    assert status == 1 and "seed 3; the shortest schedule" in said
    assert [len(faults_of(rounds)) for rounds in (failing[0], failing[-1], shortest_one.rounds)][1:] == [1, 1]
    assert "fault: kill" in said and len(faults_of(failing[0])) > 3
    assert lab("soak", "--schedule", str(runs / "shortest.yaml"))[0] == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("topology: semisync", "missing required field `seed`"),
        ("{topology: semisync, seed: 7, rounds: {}}", "has no rounds"),
        ("{topology: semisync, seed: 7, rounds: {mine: {}}}", "a drill with another name"),
    ],
)
def test_a_file_that_is_no_schedule_is_refused(lab, tmp_path, content, said):
    """By its name."""
    (tmp_path / "mine.yaml").write_text(content)
    status, _, told = lab("soak", "--schedule", str(tmp_path / "mine.yaml"))

    assert status == 2 and "mine.yaml" in told and said in told


def test_a_soak_of_no_time_is_refused(lab):
    """Before anything starts."""
    assert "--duration is '0min'" in lab("soak", "--duration", "0min")[2]


def test_a_round_that_fits_no_topology_is_refused():
    """As a drill is."""
    rounds = {f"{ROUND}001": {**next(iter(ROUNDS.values())), "clients": {"nobody": 1}}}
    with pytest.raises(LabError, match="nobody"):
        soaks.Schedule("semisync", 7, rounds).drills()
