"""Do a container's settings before and after an attachment differ only if their meaning does?"""

from copy import deepcopy
from types import SimpleNamespace

import pytest
from replication_lab.world.docker import compose_call

HOST = {
    "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}, {"Name": "nproc", "Soft": 3, "Hard": 4}],
    "ExtraHosts": ["a:10.0.0.1", "b:10.0.0.2"],
    "CapAdd": ["CAP_NET_ADMIN", "CAP_SYS_NICE"],
    "Devices": [{"PathOnHost": "/dev/a"}, {"PathOnHost": "/dev/b"}],
    "PortBindings": {"80/tcp": [{"HostPort": "1"}, {"HostPort": "2"}]},
    "Memory": 0,
}


def digests(host=HOST, command=("serve", "--fast")):
    networks = {"shop": {"Aliases": ["web", "app"], "Links": ["x:cache", "y:db"], "IPAMConfig": None}}
    config = {"Env": ["A=1", "B=2"], "Cmd": list(command), "Labels": {}}
    attrs = {"Config": config, "HostConfig": host, "NetworkSettings": {"Networks": networks}, "Mounts": []}
    return compose_call.settings(SimpleNamespace(id="0" * 64, name="shop-app-1", labels={}, attrs=attrs))


@pytest.mark.parametrize("key", ["Ulimits", "ExtraHosts", "CapAdd", "Devices"])
def test_what_is_a_set_may_come_in_another_order(key):
    """Compose writes limits, hosts and capabilities in any."""
    assert digests({**HOST, key: HOST[key][::-1]}) == digests()


@pytest.mark.parametrize("key", ["Ulimits", "ExtraHosts", "CapAdd", "PortBindings", "Memory"])
def test_another_value_is_a_difference(key):
    """Sabotage: one part is missing or changed."""
    changed = deepcopy(HOST)
    changed[key] = 1 if key == "Memory" else type(HOST[key])()

    assert digests(changed)["limits and ports"] != digests()["limits and ports"]


def test_the_container_that_volumes_come_from_may_be_a_new_one():
    """It was recreated, too; the volumes themselves are compared."""
    assert digests({**HOST, "VolumesFrom": ["f00"]}) == digests({**HOST, "VolumesFrom": ["ba5"]})


def test_the_order_of_a_command_counts():
    """Its words are no set."""
    assert digests(command=("--fast", "serve"))["program"] != digests()["program"]
