"""Does a node of a cluster dial its own Toxiproxy, and accept what the Toxiproxies of its peers send?"""

import pytest
from replication_lab.world import catalogue

from tests.unit.bootstrap import bash

SCRIPT = catalogue.IMAGES / "sidecar" / "through-toxiproxy"
ADDRESSES = {"node1": "10.0.1.1", "node3": "10.0.1.3", "toxiproxy": "10.0.1.11"}
ON_SITES = {"toxiproxy2": "10.0.1.12", "toxiproxy3": "10.0.1.13"}


def ruled(proxies, addresses):
    """Return the names that node2 looks for, and its rules about node 3's group communication."""
    # Without its last line the script only defines.
    defined = "\n".join(SCRIPT.read_text().rstrip().splitlines()[:-1])
    known = "\n".join(f"{name} {address}" for name, address in addresses.items())
    asked = f'LAB_NODE=node2 LAB_PEERS="node1 node3" LAB_PROXIES="{proxies}"\nnames\nrules "{known}"'
    lines = bash(f"{defined}\n{asked}")
    names = lines[: lines.index("*nat")]
    return names, [line for line in lines if "42367" in line or "43267" in line]


@pytest.mark.parametrize(
    ("proxies", "more", "dials", "hears"),
    [
        ("", {}, "10.0.1.11", "10.0.1.11"),
        ("node1=toxiproxy node2=toxiproxy2 node3=toxiproxy3", ON_SITES, "10.0.1.12", "10.0.1.13"),
    ],
)
def test_a_node_dials_its_own_toxiproxy_and_is_dialled_by_that_of_its_peer(proxies, more, dials, hears):
    """On one engine they are the same one."""
    names, (to_peer, arrived, from_peer) = ruled(proxies, ADDRESSES | more)

    assert names == sorted(ADDRESSES | more)
    assert f"-d 10.0.1.3 --dport 4567 -j DNAT --to-destination {dials}:42367" in to_peer
    assert f"-s {hears} --dport 43267 -j REDIRECT --to-ports 4567" in arrived
    assert f"-s {hears} --dport 4567 " in from_peer and "--ctorigdstport 43267" in from_peer
