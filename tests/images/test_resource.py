"""A machine of a replicated disk that cannot be one says why, and ends, before it starts a guest."""

import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images

from tests.images import guest

PAIR = {"LAB_NODE": "node1", "LAB_PEER": "node2", "LAB_DISKS": "disk"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (PAIR, "LAB_PEER is node2 without a resource file; expected one in /etc/drbd.d"),
        ({**PAIR, "LAB_PEER": "other"}, "LAB_PEER is 'other'; expected names that end in a number"),
        ({**PAIR, "LAB_NODE": ""}, "LAB_NODE is '', LAB_PEER is 'node2'; expected names that end in a number"),
        ({**PAIR, "LAB_DISKS": ""}, "expected a disk and no array"),
        ({**PAIR, "LAB_ARRAY": "single"}, "expected a disk and no array"),
        ({"LAB_CLUSTER": "on"}, "LAB_CLUSTER is on without LAB_PEER; expected the two machines of a resource"),
        ({"LAB_CLUSTER": "maybe"}, "LAB_CLUSTER is 'maybe'; expected on or off"),
    ],
)
def test_settings_that_make_no_pair_are_refused(docker, settings, said):
    """The container's own log has it."""
    images.ensure(["vm"])
    machine = guest.start({"MYSQL_ROOT_PASSWORD": "secret", **settings})
    try:
        wait_until(lambda: not machine.runs(), "its end")

        assert said in machine.console()
    finally:
        machine.remove()


def test_a_kernel_without_the_module_is_said_to_have_none(docker):
    """Which is what `docker compose up` and `lab up` show of a machine that did not start, and not a silent peer."""
    images.ensure(["vm"])
    machine = guest.start({"LAB_SERVER": "off"})
    try:
        machine.wait_until_answers()
        machine.run("sh", "-c", "find /usr/lib/modules -name 'drbd.ko*' -delete; depmod")
        answer = machine.attempt("resource", "start")

        assert (1, "resource: the guest's kernel has no module drbd") == (
            answer.code,
            answer.err.strip().splitlines()[-1],
        )
    finally:
        machine.remove()


@pytest.mark.long
def test_a_machine_that_did_not_start_says_why_when_it_is_asked_for_its_health(docker):
    """The output is the reason itself, not only where to look for it: a disk without a server."""
    images.ensure(["vm"])
    machine = guest.start({"LAB_SERVER": "off", "LAB_DISKS": "127.0.0.1:9"})
    try:
        machine.wait_until_answers()
        wait_until(lambda: "did not start" in machine.health().out, "its trouble")

        assert "disk 1 at 127.0.0.1 9 does not answer" in machine.health().out
    finally:
        machine.remove()
