"""The array's container where the host gives it less than it needs."""

import pytest
from replication_lab.model.lab.disk import Limits
from replication_lab.world.disks.spindle import arguments

from tests.images.conftest import LABEL, PATIENCE_S, build, remove_container

ARRAY, SPINDLE = "replication-lab/array", "replication-lab/spindle"
# As compose/storage/_parts.yaml has it, but for the rules of the loop devices.
NO_LOOP_DEVICES = {
    "cap_drop": ["ALL"],
    "cap_add": ["SYS_ADMIN", "CHOWN", "DAC_OVERRIDE"],
    "security_opt": ["no-new-privileges:true", "seccomp:unconfined", "apparmor:unconfined"],
    "device_cgroup_rules": ["c 10:229 rw"],
    "volumes": {"/dev": {"bind": "/dev", "mode": "rw"}},
}


@pytest.fixture
def started(client):
    """Start a container and have it removed at the end."""
    made = []

    def start(image, *command, **options):
        made.append(client.containers.run(image, list(command), detach=True, labels={LABEL: "1"}, **options))
        return made[-1]

    build(SPINDLE)
    build(ARRAY)
    yield start
    for each in made:
        remove_container(each)


def test_without_a_free_loop_device_an_array_says_what_shows_who_has_them(started):
    """It ends, and its disks are let go of."""
    disk = started(SPINDLE, *arguments(Limits(), 64 << 20))
    disk.reload()
    array = started(
        ARRAY,
        "run",
        environment={
            "ARRAY_NAME": "no-loop",
            "ARRAY_NODE": "replica",
            "ARRAY_BACKEND": "btrfs",
            "ARRAY_LEVEL": "single",
            "ARRAY_DISKS": "localhost",
            "ARRAY_OWNER": "999:999",
        },
        network_mode=f"container:{disk.id}",
        **NO_LOOP_DEVICES,
    )
    ended = array.wait(timeout=PATIENCE_S)["StatusCode"]

    assert ended == 1
    assert "no loop device is free; on the host: losetup --list" in array.logs().decode()
