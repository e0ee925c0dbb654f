"""Does a virtual machine that cannot start say why, and is nothing of one left behind?"""

import re

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import labels, leftovers
from replication_lab.world.machines import vm

from tests.fakes.owners import dead
from tests.images.conftest import PATIENCE_S, until
from tests.images.yard import VM, opened_yard


@pytest.fixture(scope="module")
def yard(client):
    with opened_yard(client) as yard:
        yield yard


def test_a_guest_that_never_boots_says_so_with_its_console(yard):
    """A kernel without room panics or refuses to begin, as its address decides; its last words are told, and kept."""
    machine = yard.machine("uml", server=False, LAB_MEMORY="20")
    with pytest.raises(LabError) as told:
        machine.wait_until_answers(90)

    assert "the guest ended" in told.value.found
    assert any(words in told.value.found for words in ("panic", "Out of memory", "Too few physical memory"))
    assert f"docker logs {machine.name}" == told.value.next_step


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"LAB_VM": "xen"}, "LAB_VM is 'xen'; expected auto, uml, kvm or tcg"),
        ({"LAB_MEMORY": "-1"}, "LAB_MEMORY is '-1'; expected a number of MiB"),
        ({"LAB_ARRAY": "raid1"}, "LAB_ARRAY is raid1 without disks"),
        ({"LAB_SERVER": "maybe"}, "LAB_SERVER is 'maybe'; expected on or off"),
        ({"LAB_VM": "kvm"}, "/dev/kvm cannot be written here"),
        ({}, "/dev/net/tun cannot be written"),
    ],
)
def test_a_machine_does_not_start_with(loose_image, environment, message):
    """What was found and what was expected, before anything is made."""
    container = loose_image(VM, environment=environment, cap_drop=["ALL"])

    assert 1 == container.wait(timeout=PATIENCE_S)["StatusCode"]
    assert message in container.logs().decode()


# A stopped process stands for a kernel that hangs: it does not end by itself either.
@pytest.mark.long
@pytest.mark.parametrize("launcher", ["uml", "tcg"])
def test_a_guest_that_hangs_at_its_boot_is_started_once_more(yard, launcher):
    """Its log says why it was killed, and that it was started again; the second one is healthy."""
    machine = yard.machine(launcher, server=False)
    until(lambda: stop_guest(machine), "the guest's process")
    machine.wait_until_healthy()

    said = machine.console()
    assert re.search(r"not answered within 45 s of the start: in 0.3 s its kernel used 0.00 s .* state T", said)
    assert said.count("starting the guest") == 2


@pytest.mark.long
def test_a_guest_that_hangs_again_is_left_as_it_is(yard):
    """Only the first start is repeated: whoever waits for the machine gets an error with the console's end."""
    machine = yard.machine("uml", server=False)
    until(lambda: stop_guest(machine), "the guest's process")
    until(lambda: machine.console().count("starting the guest") == 2 and stop_guest(machine), "the second start")
    with pytest.raises(LabError) as told:
        machine.wait_until_answers(60)

    assert "waited 60 s and its agent did not answer" in told.value.found
    assert machine.console().count("starting the guest") == 2


def stop_guest(machine):
    """Return whether the guest's process was there and is stopped now; it has not booted this early."""
    return machine.container.exec_run(["sh", "-c", "kill -STOP $(cat /tmp/guest.pid)"]).exit_code == 0


# Any command that starts something sweeps such a machine.
@pytest.mark.alone
def test_a_machine_whose_owner_was_killed_is_found(yard):
    """By its labels, as any lab; `lab clean` takes it away."""
    orphan = vm.container("replication-lab-orphan-vm", "uml", {"LAB_SERVER": "off"})
    yard.client.containers.run(detach=True, **orphan | {"labels": orphan["labels"] | {labels.LABEL: dead()}})
    found = "replication-lab-orphan-vm" in leftovers.left_behind()
    leftovers.remove("replication-lab-orphan-vm")

    assert found
    assert "replication-lab-orphan-vm" not in leftovers.left_behind()


def test_nothing_of_a_machine_is_left_behind(yard, client):
    """A removed container takes the guest, its memory, its network device and its disks along."""
    machine = yard.machine("uml", server=False)
    machine.wait_until_answers()
    volumes = {mount["Name"] for mount in machine.container.attrs["Mounts"] if mount["Type"] == "volume"}
    guests = [row[1] for row in machine.container.top()["Processes"] if "linux.uml" in row[-1]]
    machine.remove()

    assert guests
    assert not [pid for pid in guests if running(pid)]
    assert volumes.isdisjoint(volume.name for volume in client.volumes.list())


def running(pid):
    try:
        with open(f"/proc/{pid}/comm") as name:
            return "uml" in name.read()
    except OSError:
        return False
