"""Virtual machines without any: which launcher is chosen and why, and what is made of a guest's answers."""

import subprocess
from types import SimpleNamespace

import pytest
from replication_lab.lab import memory, up
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue
from replication_lab.world import host as host_of_lab
from replication_lab.world.docker.machine import EngineMachine
from replication_lab.world.machines import vm

from tests.images import guest
from tests.images.guest import Answer, Array, parse_array, settings


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a host with /dev/kvm whose trials are counted: ``host(boots)`` → list of trials."""
    device, boot_id = tmp_path / "kvm", tmp_path / "boot_id"
    device.touch()
    boot_id.write_text("first\n")
    monkeypatch.delenv("LAB_VM", raising=False)
    monkeypatch.setattr(vm, "KVM", device)
    monkeypatch.setattr(vm.owners, "boot", lambda: boot_id.read_text().strip())
    monkeypatch.setattr(vm, "TRIED", tmp_path / "runs" / "kvm.json")
    monkeypatch.setattr(vm.machine, "facts", lambda: EngineMachine("", "amd64", 2, 8000, ""))
    monkeypatch.setattr(vm, "TUN", boot_id)
    trials = []

    def with_kvm(boots):
        monkeypatch.setattr(vm, "_try_kvm", lambda: trials.append(boots) or boots)
        return trials

    return with_kvm


def test_a_guest_that_booted_with_kvm_is_what_chooses_kvm(host):
    """The device alone proves nothing."""
    host(True)

    assert "kvm" == vm.launcher().name


def test_where_kvm_boots_no_guest_it_is_user_mode_linux_and_said_why(host):
    """On x86-64."""
    host(False)

    assert "uml" == vm.launcher().name
    assert "a guest did not boot with it" in vm.launcher().because


def test_a_trial_that_others_may_have_written_is_not_believed(host):
    """What the lab keeps is its user's alone."""
    trials = host(False)
    vm.launcher()
    vm.TRIED.chmod(0o666)

    assert vm.launcher().name == "uml" and len(trials) == 2


def test_kvm_is_tried_once_for_each_boot_of_the_host(host):
    """A trial costs seconds; after a boot things may be different."""
    trials = host(False)
    vm.launcher(), vm.launcher()
    once = len(trials)
    vm.TUN.write_text("second\n")
    vm.launcher()

    assert (1, 2) == (once, len(trials))


@pytest.mark.parametrize("damaged", ["", "{", '{"boot_id": 7}'])
def test_a_memory_of_the_trial_that_cannot_be_read_is_none(host, damaged):
    """It is tried anew."""
    trials = host(True)
    vm.TRIED.parent.mkdir()
    vm.TRIED.write_text(damaged)

    assert not vm.is_known()
    assert "kvm" == vm.launcher().name
    assert vm.is_known() and 1 == len(trials)


def test_lab_vm_is_obeyed_without_a_trial(host, monkeypatch):
    """An explicit launcher is used."""
    trials = host(True)
    monkeypatch.setenv("LAB_VM", "tcg")

    assert vm.Launcher("tcg", "set by LAB_VM") == vm.launcher()
    assert [] == trials


@pytest.mark.parametrize(
    ("boots", "there", "found"), [(False, True, "did not boot with it"), (True, False, "does not exist")]
)
def test_kvm_that_cannot_be_had_is_refused_when_asked_for(host, monkeypatch, refused, boots, there, found):
    """A device that boots no guest, or none: said at once, and not after a guest has hung for a minute."""
    host(boots)
    monkeypatch.setenv("LAB_VM", "kvm")
    if not there:
        vm.KVM.unlink()
    error = refused(vm.launcher)

    assert found in error.found and "unset LAB_VM" == error.next_step


def test_kvm_that_boots_a_guest_is_had_when_asked_for(host, monkeypatch):
    """After one trial."""
    trials = host(True)
    monkeypatch.setenv("LAB_VM", "kvm")

    assert ("kvm", 1) == (vm.launcher().name, len(trials))


def test_an_unknown_launcher_is_refused(host, monkeypatch):
    """With the known ones."""
    host(True)
    monkeypatch.setenv("LAB_VM", "xen")
    with pytest.raises(LabError) as told:
        vm.launcher()

    assert ("LAB_VM is 'xen'", "auto, uml, kvm, tcg") == (told.value.found, told.value.expected)


def test_without_the_device_nothing_is_tried(host):
    """And the reason is another one."""
    trials = host(True)
    vm.KVM.unlink()

    assert "there is no " in vm.launcher().because
    assert [] == trials


def test_another_processor_is_refused_before_an_image_is_built(host, monkeypatch, refused):
    """The image's kernels are for one kind; what else the lab has runs there."""
    trials = host(True)
    monkeypatch.setattr(vm.machine, "facts", lambda: EngineMachine("", "arm64", 2, 8000, ""))

    assert "the processor is arm64" in refused(vm.launcher).found
    assert [] == trials


def test_a_host_without_a_tun_device_is_refused(host, monkeypatch, refused, tmp_path):
    """A guest would have no network."""
    host(True)
    monkeypatch.setattr(vm, "TUN", tmp_path / "no-tun")
    monkeypatch.delenv("DOCKER_HOST", raising=False)

    assert "sudo modprobe tun" == refused(vm.launcher).next_step


def test_settings_name_the_disks_in_order():
    """The first is /dev/disk/lab/1."""
    expected = {"LAB_DISKS": "a b:1234", "LAB_ARRAY": "raid0", "LAB_SERVER": "off"}

    assert expected == settings(["a", "b:1234"], "raid0", server=False)


@pytest.mark.parametrize(
    ("disks", "array", "found"),
    [((), "raid1", "raid1 without disks"), (("a",), "raid6", "unknown array level 'raid6'")],
)
def test_settings_that_make_no_machine_are_refused(disks, array, found):
    """Before a container is started."""
    with pytest.raises(LabError) as told:
        settings(disks, array)

    assert found == told.value.found


def test_the_status_of_a_raid1_in_recovery():
    """All words of it, and the members by number."""
    line = (
        "level=raid1 state=clean disks=2 degraded=1 sync=recover done=32768/522240 size=267386880 mounted=/dev/md0 "
        "disk1=in_sync disk2=spare \n"
    )
    expected = Array(
        level="raid1",
        size=267386880,
        mounted="/dev/md0",
        state="clean",
        degraded=1,
        sync="recover",
        done="32768/522240",
        disks={1: "in_sync", 2: "spare"},
    )

    assert expected == parse_array(line)


@pytest.mark.parametrize(
    "line",
    [
        "level=raid0 state=clean disks=2 degraded=- sync=- done=- size=8192 mounted=/dev/md0 disk1=in_sync",
        "level=single size=8192 mounted=/dev/nbd1",
    ],
)
def test_the_status_of_what_has_no_redundancy(line):
    """There is nothing degraded, and nothing to synchronise."""
    array = parse_array(line)

    assert (8192, 0, "") == (array.size, array.degraded, array.sync)


class Silent:
    """A container of which only the console is known."""

    name = "node1"

    def logs(self):
        return b"".join(b"line %d\n" % number for number in range(100))


@pytest.fixture
def machine(monkeypatch):
    """Return a machine whose `docker exec` ends with a given result: ``machine(code, out, err)``."""

    def with_answer(code, out=b"", err=b""):
        monkeypatch.setattr(guest.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], code, out, err))
        return guest.Guest(Silent())

    return with_answer


def test_a_silent_agent_is_told_from_a_command_that_fails(machine):
    """The error ends with the end of the console, and not with all of it."""
    with pytest.raises(LabError) as told:
        machine(255, err=b"no route").attempt("true")

    assert "its agent does not answer (no route)" in told.value.found
    assert "line 99" in told.value.found and "line 80" not in told.value.found
    assert Answer(1, "", "") == machine(1).attempt("false")


def test_a_container_that_has_ended_is_no_exit_code_of_a_command(machine):
    """docker exec ends with 1 then."""
    with pytest.raises(LabError):
        machine(1, err=b"Error response from daemon: container 1 is not running").attempt("true")


def test_machines_for_which_there_is_no_memory_are_refused_before_they_start(monkeypatch, refused):
    """With what is there, what it takes, and what to do."""
    monkeypatch.setattr(host_of_lab, "available_mib", lambda: 1000)
    monkeypatch.delenv("LAB_MEMORY", raising=False)
    error = refused(up.launcher_of, catalogue.topology("drbd"))

    assert "1000 MiB of memory are available" == error.found
    assert "at least 1520 MiB, for 2 virtual machines" == error.expected
    assert "./lab status, then stop another lab" == error.next_step
    monkeypatch.setenv("LAB_MEMORY", "300")
    memory.check([(catalogue.topology("drbd"), "", {})])


@pytest.mark.parametrize("asked", ["2G", "-1", "0", "six"])
def test_memory_that_is_no_number_of_mebibytes_is_refused(monkeypatch, refused, asked):
    """As the machine itself would, after its container has started."""
    monkeypatch.setenv("LAB_MEMORY", asked)

    assert f"LAB_MEMORY is {asked!r}" == refused(vm.each_mib).found


def test_a_panic_is_told_also_where_its_stack_is_longer_than_what_is_shown():
    """Its reason comes before the stack."""
    lines = ["booting", "Kernel panic - not syncing: no room", *(f"frame {number}" for number in range(40))]
    container = SimpleNamespace(name="lab-node", logs=lambda: "\n".join(lines).encode())
    found = guest.Guest(container)._trouble("the guest ended", "a guest that boots").found

    assert "not syncing: no room" in found and "frame 39" in found
    assert "booting" not in found and "frame 2\n" not in found
