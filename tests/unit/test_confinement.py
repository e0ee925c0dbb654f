"""Does the witness of processes and limits tell what others did from what the lab asked for, on each kind of engine?"""

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.witnesses import confinement
from replication_lab.witnesses.confinement import Confinement, LabOnMachine
from replication_lab.world import clock, requests_made
from replication_lab.world.docker import control_groups
from replication_lab.world.host import MachineFiles

NODE = "a" * 64
OLD, NEW, SYSTEMD = "cpu/docker/{}", "docker/{}", "system.slice/docker-{}.scope"


@pytest.fixture(autouse=True)
def nothing_requested():
    requests_made._made.clear()


@pytest.fixture
def told(monkeypatch):
    """Return what a second reading of a container tells; each is given by the limit and the state of the process."""

    def of(before, after, place=NEW, file="cpu.max", meanwhile=lambda: None):
        witness, lab = Confinement(), LabOnMachine("", {"node1": NODE})
        for limit, state in (before, after):
            group = f"{control_groups.ROOT}/{place.format(NODE)}"
            procs = f"{group.replace('/cpu/', '/cpuacct/')}/cgroup.procs"
            files = {f"{group}/{file}": f"{limit}\n", procs: "7\n", "/proc/7/stat": f"7 (my sqld) {state} 1 7 7"}
            monkeypatch.setattr(confinement.reach, "machine_files", lambda *_, held=files, **__: MachineFiles(held))
            found = witness(lab)
            meanwhile()
        return found

    return of


@pytest.mark.parametrize(
    ("place", "file"), [(OLD, "cpu.cfs_quota_us"), (NEW, "cpu.max"), (SYSTEMD, "cpu.max"), (NEW, "cgroup.freeze")]
)
def test_a_limit_that_others_change_is_told_in_each_version_of_control_groups(told, place, file):
    """By the file that has it."""
    assert told(("0", "S"), ("1", "S"), place, file) == [f"{file} of node1 was 1, after 0"]
    assert told(("0", "S"), ("0", "R"), place, file) == []


def test_a_process_that_a_signal_stops_is_told_by_its_name_and_only_once(told):
    """One that was stopped before is as it was; a traced one, as in user-mode Linux, is not stopped."""
    assert told(("max", "S"), ("max", "T")) == ["a signal stopped my sqld in node1"]
    assert told(("max", "T"), ("max", "T")) == []
    assert told(("max", "S"), ("max", "t")) == []


def test_what_the_lab_asks_for_is_expected_and_only_for_that_container(told):
    """The engine changes the files at its request."""

    def asked(container):
        with requests_made.noted("update", container):
            pass

    assert told(("max", "S"), ("50000 100000", "S"), meanwhile=lambda: asked(NODE)) == []
    requests_made._made.clear()
    assert told(("max", "S"), ("50000 100000", "S"), meanwhile=lambda: asked("b" * 64)) != []


def test_containers_that_the_lab_has_made_again_are_looked_up_again():
    """As by an upgrade: they have other groups."""
    lab = LabOnMachine("", {"node1": NODE})
    clock.pause(0.01)
    lab.refuse_if_exchanged()
    with requests_made.noted(requests_made.EXCHANGE, "node1"):
        lab.refuse_if_exchanged()
    with pytest.raises(LabError, match="exchanged"):
        lab.refuse_if_exchanged()
