"""Soaks on real servers: their promises hold, a promise that is false is found and shrunk, nothing is left."""

import pytest
from replication_lab.runner import soak as soaks
from replication_lab.world import catalogue

from tests.lab.conftest import labs_of, read_until, things_of

# Ten minutes in all; group replication needs 40 s to exclude a node.
MINUTES = {"semisync": 2, "galera": 2.5, "group": 3, "drbd": 2.5}
PLANTED = """
topology: single
seed: 7
rounds:
  soak-round-001:
    about: innocent
    clients: {server: 2}
    steps: [{fault: clock, skew: 60, targets: [server], seconds: 1}]
    promises: [nothing-lost]
  soak-round-002:
    about: a promise that a kill breaks
    clients: {server: 4}
    steps:
      - {fault: cpu, targets: [server], seconds: 1}
      - {fault: clock, skew: 60, targets: [server], seconds: 1}
      - {fault: kill, targets: [server], seconds: 1}
    promises: [nothing-lost]
    expected: [{says: no statement is without an answer, figure: unknown, equals: 0}]
"""


def soaked(start_command, *arguments):
    """Run `lab soak`; return its status and all that it said. None of its labs is left."""
    process = start_command("soak", *arguments)
    said = "".join(read_until(process, "starting "))
    labs = labs_of(process)
    said += process.stdout.read()
    status = process.wait()

    assert {lab: things_of(lab) for lab in labs} == {lab: [] for lab in labs}
    return status, said


def folder_in(said):
    return catalogue.ROOT / said.partition("schedule and report: ")[2].split()[0]


def test_a_few_seconds_of_a_soak_hold(start_command):
    """Its rounds are those of its seed."""
    status, said = soaked(start_command, "--topology", "single", "--duration", "0.1min", "--seed", "3")

    assert status == 0, said
    assert soaks.read(folder_in(said) / "schedule.yaml") == soaks.draw(catalogue.topology("single"), 3, 0.1)
    assert "HOLDS    soak-round-001: " in said


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("topology", MINUTES)
def test_some_minutes_of_a_soak_hold(start_command, topology):
    """Tests beside this one may slow a proof, and then its round is UNKNOWN; none may fail."""
    status, said = soaked(start_command, "--topology", topology, "--duration", f"{MINUTES[topology]}min")

    assert status in (0, 3), said
    assert "HOLDS    soak-round-" in said and "REFUTED" not in said


@pytest.mark.long
def test_a_false_promise_is_found_and_its_schedule_is_shrunk_to_the_fault_that_breaks_it(start_command, tmp_path):
    """One of four faults, in one of two rounds; the file that is written fails again."""
    (tmp_path / "planted.yaml").write_text(PLANTED)
    status, said = soaked(start_command, "--schedule", str(tmp_path / "planted.yaml"), "--duration", "5min")
    path = folder_in(said) / "shortest.yaml"
    steps = [step for each in soaks.read(path).rounds.values() for step in each["steps"]]

    assert status == 1, said
    assert [step["fault"] for step in steps] == ["kill"] and "seed 7; the shortest schedule" in said
    assert soaked(start_command, "--schedule", str(path), "--duration", "0.01min")[0] == 1
