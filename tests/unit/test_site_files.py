"""Does the Compose file of a lab on several sites place each service, publish what it must, and dial across once?"""

import json

import yaml
from replication_lab.model.lab.site import Site, placed
from replication_lab.world import catalogue
from replication_lab.world.docker import site_files

SEMISYNC = catalogue.topology("semisync")
DB2 = "tcp://10.1.0.2:2375"
HERE, THERE = Site("", "10.1.0.1"), Site(DB2, "10.1.0.2")
APART = {"source": HERE, "replica": THERE}


class Tagged(yaml.SafeLoader):
    """Reads Compose's own tags as the values that they are before."""


Tagged.add_constructor("!override", lambda loader, node: loader.construct_mapping(node))


def test_ports_are_published_on_the_named_addresses_only_and_the_proxies_dial_them():
    """The API of Toxiproxy is not among them; names lead to the same server on both sites."""
    made = yaml.safe_load(site_files.overlay("lab-a", SEMISYNC, APART))
    services, [link] = made["services"], json.loads(made["configs"]["links"]["content"])

    assert services["source"] == {"ports": ["10.1.0.1:20001:3306"]}
    assert services["replica"] == {"ports": ["10.1.0.2:20002:3306"]}
    assert services["toxiproxy"] == {"extra_hosts": {"source": "10.1.0.1"}}
    assert services["toxiproxy2"]["ports"] == ["127.0.0.1:23000-29999:8474"]
    assert services["toxiproxy2"]["networks"] == {"default": {"aliases": ["toxiproxy"]}}
    assert link["upstream"] == "source:20001" and link["listen"].endswith(":21002")
    assert json.loads(made["configs"]["links-toxiproxy2"]["content"]) == []


def test_each_service_has_a_site_and_each_site_a_toxiproxy():
    """A link's stands beside the node that dials it, so a byte crosses the network between the sites once."""
    found = site_files.services(SEMISYNC, APART)

    assert found == {"source": HERE, "replica": THERE, "toxiproxy": THERE, "toxiproxy2": HERE, "load": HERE}
    assert site_files.services(SEMISYNC, {}) == {}


def test_machines_that_dial_each_other_share_a_toxiproxy_and_have_their_disks_beside_them():
    """Either connection may carry what both write, so both are in one proxy, and a byte crosses the network once."""
    drbd = catalogue.topology("drbd")
    at = placed(drbd, {"node2": DB2}, {}, "overlay")
    made = yaml.load(site_files.overlay("lab-d", drbd, at), Tagged)

    here, there = at["node1"], at["node2"]
    assert site_files.services(drbd, at) == {
        **dict.fromkeys(("node1", "node1-disk1", "toxiproxy", "load"), here),
        **dict.fromkeys(("node2", "node2-disk1"), there),
    }
    assert {link["name"] for link in json.loads(made["configs"]["links"]["content"])} == {*drbd.links[0].proxies}
    assert made["services"] == {"node1": {}, "node2": {}, "toxiproxy": {}}


def test_nodes_of_a_cluster_are_in_one_network_and_each_knows_all_toxiproxies():
    """Nothing is published for another site, and a link is in the Toxiproxy of its dialler only."""
    galera = catalogue.topology("galera")
    at = placed(galera, {"node2": DB2, "node3": "tcp://10.1.0.3:2375"}, {}, "overlay")
    made = yaml.load(site_files.overlay("lab-g", galera, at), Tagged)
    of_second = json.loads(made["configs"]["links-toxiproxy2"]["content"])

    assert made["networks"]["default"] == {"name": "lab-g_sites", "external": True}
    through = "node1=toxiproxy node2=toxiproxy2 node3=toxiproxy3"
    assert made["services"]["sidecar2"] == {"environment": {"LAB_PROXIES": through}}
    assert made["services"]["node2"]["entrypoint"] == ["bash", "/usr/local/bin/galera-start-apart"]
    assert {each["name"].partition("-")[0] for each in of_second} == {"node2"} and len(of_second) == 8
    placed_at = site_files.services(galera, at)
    assert placed_at["sidecar2"] == placed_at["toxiproxy2"] == at["node2"]
    assert not any("ports" in each for name, each in made["services"].items() if name.startswith("node"))
