"""Are topologies read strictly, and are the Compose files as safe and as complete as the lab promises?"""

import json
import re

import pytest
from replication_lab.model.lab.topology import HOST_PORTS, _can_be_halved, parse_topology
from replication_lab.world import catalogue
from replication_lab.world.docker import labels, project

from tests.unit.compose_files import COMPOSE, all_mounts, read, resolved, services

OWNER = "${LAB_OWNER:-compose}"
# The last digits of a link's ports in a cluster.
PORTS = {"group": "67", "ist": "68", "sst": "44", "sql": "06", "echo": "07"}


@pytest.fixture
def text() -> str:
    """Return a good Compose file to spoil."""
    return (COMPOSE / "async.yaml").read_text()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "found", "expected"),
    [
        ("x-lab:", "x-labb:", "has no x-lab", '"about", "replication" and "toxics"'),
        ("  about:", "  aboot:", "unknown field `aboot`", '"about", "replication", "toxics"'),
        ("  about: one", "  colour: red\n  about: one", "unknown field `colour`", '"about", "replication", "toxics"'),
        ("replication: async", "replication: [async]", "x-lab: Expected `str`", '"about", "replication", "toxics"'),
        (
            "{source-replica: wan",
            "{source-repica: wan",
            "unknown link of broken 'source-repica'; did you mean",
            "source-",
        ),
        ('[{"name"', '{"name"', "configs.links is not JSON", "Toxiproxy's list"),
        ('"source-replica",', '"replica-to-source",', "'replica-to-source' is not of the form FROM-TO", "FROM-TO"),
        ('"source-replica",', '"source-sink",', "'source-sink' is not of the form FROM-TO", "FROM-TO"),
        ("\nconfigs:", "\nx-configs:", "has no links", "Toxiproxy's list of proxies"),
        ("\nservices:", "\nx-services:", "has no services", "a Compose file"),
        ("x-lab:", "x-lab: [", "is not YAML", "a Compose file"),
    ],
)
def test_a_bad_topology_is_refused_with_what_was_found_and_expected(text, good, bad, found, expected, refused):
    """Each mistake in a Compose file names the file, itself, and what would be right."""
    assert good in text
    error = refused(parse_topology, "broken", text.replace(good, bad))

    assert found in error.found
    assert expected in error.expected


def test_an_unknown_topology_suggests_the_nearest(refused):
    """A mistyped name is answered with the one that was meant."""
    assert "did you mean semisync?" in refused(catalogue.topology, "semisink").found


def test_unknown_nodes_and_links_are_refused(refused):
    """Asking a topology for what it has not lists what it has."""
    chain = catalogue.topology("chain")

    assert "relay" in refused(chain.node, "rellay").found
    assert "source-relay" in refused(chain.link, "source-leaf").expected


# --- what is there ----------------------------------------------------------------------------------------------------


def test_roles_follow_from_links():
    """A node that only writes is the source, one that only reads a replica, one that does both a relay."""
    chain = catalogue.topology("chain")

    assert {node.name: node.role for node in chain.nodes} == {"source": "source", "relay": "relay", "leaf": "replica"}
    assert [link.target for link in chain.links_from("relay")] == ["leaf"]
    assert chain.source.name == "source"


CLUSTERS = [name for name in catalogue.topologies() if catalogue.topology(name).replication == "galera"]
PAIRS = [name for name in catalogue.topologies() if catalogue.topology(name).replication == "drbd"]
GROUPS = [name for name in catalogue.topologies() if catalogue.topology(name).replication == "group"]
OTHERS = [name for name in catalogue.topologies() if name not in (*CLUSTERS, *GROUPS, *PAIRS)]


@pytest.mark.parametrize("name", catalogue.topologies())
def test_every_topology_parses_and_its_toxics_exist(name):
    """Each Compose file is a topology with one source, or members or peers only, and names toxics that there are."""
    topology = catalogue.topology(name)
    roles = [node.role for node in topology.nodes]

    assert topology.name == name and (roles.count("source") == 1 or set(roles) in ({"member"}, {"peer"}))
    assert set(topology.toxics.values()) <= set(catalogue.toxics())


@pytest.mark.parametrize("name", CLUSTERS)
def test_every_ordered_pair_of_a_cluster_has_a_link(name):
    """Four ports each, numbered by both nodes, the same number at both ends; the one for SQL is reachable.

    To an arbitrator, which has no data, there are one for the group and an echo; it dials SQL to see if a node serves.
    """
    topology, file = catalogue.topology(name), read(COMPOSE / f"{name}.yaml")
    names = [*(node.name for node in topology.nodes), *topology.arbitrators]

    assert sorted(link.name for link in topology.links) == sorted(f"{a}-{b}" for a in names for b in names if a != b)
    for entry in json.loads(file["configs"]["links"]["content"]):
        source, target, *channel = entry["name"].split("-")
        number = f"4{source[-1]}{target[-1]}{PORTS[channel[0] if channel else 'group']}"
        far = f"{target}:7" if channel == ["echo"] else f"{target}:{number}"
        assert (entry["listen"], entry["upstream"]) == (f"0.0.0.0:{number}", far)
    for link in topology.links:
        ports = 2 if {link.source, link.target} & set(topology.arbitrators) else 4
        assert len(link.proxies) == ports and link.server == link.target
        assert link.echoes == (link.target in topology.arbitrators)
        assert f"127.0.0.1:{HOST_PORTS}:{link.port}" in file["services"]["toxiproxy"]["ports"]


@pytest.mark.parametrize("name", [*CLUSTERS, *GROUPS])
def test_every_node_of_a_cluster_has_a_sidecar_of_its_own(name):
    """The sidecar bears the node's name on the network, knows the other nodes, and holds the capability."""
    file = read(COMPOSE / f"{name}.yaml")
    topology = catalogue.topology(name)
    nodes = [*(node.name for node in topology.nodes), *topology.arbitrators]
    for node in nodes:
        sidecar = f"sidecar{node[-1]}"
        environment = file["services"][sidecar]["environment"]

        assert file["services"][node]["network_mode"] == f"service:{sidecar}"
        assert file["services"][sidecar]["networks"] == {"default": {"aliases": [node]}}
        assert environment["LAB_NODE"] == node
        assert file["services"][node]["environment"].get("LAB_NODE", node) == node
        assert environment["LAB_PEERS"].split() == [other for other in nodes if other != node]


@pytest.mark.parametrize("name", PAIRS)
def test_all_that_two_disks_say_to_each_other_crosses_one_link_that_echoes(name):
    """An entry for each direction of dialling, numbered by it, and an echo server that is reachable."""
    topology, file = catalogue.topology(name), read(COMPOSE / f"{name}.yaml")
    entries = {entry["name"]: entry for entry in json.loads(file["configs"]["links"]["content"])}
    link = topology.link("node1-node2")

    assert [node.name for node in topology.nodes] == ["node1", "node2"]
    assert [link for node in topology.nodes for link in topology.links_from(node.name)] == [link]
    assert link.proxies == ("node1-node2", "node1-node2-back", "node1-node2-echo")
    assert [(entries[each]["listen"], entries[each]["upstream"]) for each in link.proxies] == [
        ("0.0.0.0:41288", "node2:7788"),
        ("0.0.0.0:42188", "node1:7788"),
        ("0.0.0.0:41207", "node2:7"),
    ]
    assert (link.upstream, link.echoes) == ("node2:7", True)
    assert f"127.0.0.1:{HOST_PORTS}:{link.port}" in file["services"]["toxiproxy"]["ports"]


@pytest.mark.parametrize(
    ("link", "listen", "upstream", "echo"),
    [
        ("node1-node2-ring", "41251", "node2:5551", "41257"),
        ("node1-arbiter", "41953", "arbiter:5403", "41907"),
        ("node2-arbiter", "42953", "arbiter:5403", "42907"),
    ],
)
def test_a_clusters_membership_and_votes_cross_links_of_their_own(link, listen, upstream, echo):
    """Not those of the data: each can be cut alone, and each is measured by an echo."""
    topology, file = catalogue.topology("drbd-ha"), read(COMPOSE / "drbd-ha.yaml")
    entries = {entry["name"]: entry for entry in json.loads(file["configs"]["links"]["content"])}
    found = topology.link(link)

    assert {"name": link, "listen": f"0.0.0.0:{listen}", "upstream": upstream} == entries[link]
    assert (int(echo), True, (link, f"{link}-echo")) == (found.port, found.echoes, found.proxies)
    assert f"127.0.0.1:{HOST_PORTS}:{echo}" in file["services"]["toxiproxy"]["ports"]
    assert link not in [each.name for node in topology.nodes for each in topology.links_from(node.name)]


def test_clients_of_a_cluster_are_on_its_public_network_only():
    """What they reach there is the service, and not the machines' disks or links; it leads nowhere else."""
    file = read(COMPOSE / "drbd-ha.yaml")

    assert file["networks"]["public"]["internal"]
    assert ["node1", "node2", "client"] == [
        name for name, each in file["services"].items() if "public" in each.get("networks", [])
    ]
    assert ["public"] == file["services"]["client"]["networks"]


def test_machines_that_do_not_name_each_other_are_refused(refused):
    """Each is the other's peer, or there is no pair."""
    text = (COMPOSE / "drbd.yaml").read_text()
    error = refused(parse_topology, "broken", text.replace("LAB_PEER: node2", "LAB_PEER: node3"))

    assert "LAB_PEER is node3 for node1 and node1 for node2" in error.found
    assert "each the LAB_PEER of the other" in error.expected


def test_a_cluster_with_a_node_that_does_not_exist_is_refused(refused):
    """The list of members and the nodes of the file must be the same."""
    text = (COMPOSE / "galera.yaml").read_text()
    error = refused(parse_topology, "broken", text.replace("node1 node2 node3}", "node1 node2 node4}", 1))

    assert "LAB_MEMBERS of node1" in error.found and "in node3, node4" in error.found
    assert error.expected == "LAB_MEMBERS: node1 node2 node3"


@pytest.mark.parametrize(
    ("votes", "halves"), [([1, 1], True), ([2, 1], False), ([1, 1, 1], False), ([1, 1, 1, 1], True)]
)
def test_votes_that_can_be_halved_are_recognised(votes, halves):
    """A cluster that can be parted into two equal halves would stop as a whole."""
    assert halves == _can_be_halved(votes)


def test_an_even_cluster_without_a_casting_vote_is_refused(refused):
    """Two nodes with a vote each: neither could go on without the other."""
    text = (COMPOSE / "galera-2.yaml").read_text()
    error = refused(parse_topology, "broken", text.replace(', LAB_WEIGHT: "2"', ""))

    assert "2 nodes with the votes [1, 1]" in error.found and "LAB_WEIGHT" in error.expected


def test_two_nodes_with_an_arbitrator_cannot_be_halved(refused):
    """It has a vote and is no node; without it the cluster is refused."""
    text = (COMPOSE / "galera-arbiter.yaml").read_text()
    topology = parse_topology("galera-arbiter", text)

    assert ([node.name for node in topology.nodes], topology.arbitrators) == (["node1", "node2"], ("arbiter3",))
    assert "an arbitrator" in refused(parse_topology, "broken", text.replace("LAB_ARBITRATES", "LAB_OTHER")).expected


@pytest.mark.parametrize("topology", CLUSTERS)
def test_engines_without_galera_are_refused(topology, refused):
    """Before anything starts, with the engine to take instead."""
    error = refused(catalogue.engine_for, catalogue.topology(topology), "mysql-8.0")

    assert "has no galera" in error.found and f"./lab up {topology} --engine mariadb" == error.next_step


@pytest.mark.parametrize("topology", catalogue.topologies())
def test_the_default_engine_of_a_topology_can_run_it(topology):
    """A group needs MySQL, and `lab up group` without --engine takes it."""
    default = catalogue.default_engine(topology)

    assert catalogue.engine_for(catalogue.topology(topology), default)
    assert default == ("mysql-8.0" if topology == "group" else "mariadb")


def test_an_engine_that_is_refused_names_the_command_that_asked_for_it(refused):
    """What is typed next is the same command with an engine that can do it."""
    drbd, semisync = catalogue.topology("drbd"), catalogue.topology("semisync")
    drilled = refused(catalogue.engine_for, drbd, "mysql-8.0", command="drill drbd")
    measured = refused(catalogue.engine_for, semisync, "mysql-5.7", command="run semisync_wan")

    assert drilled.next_step == "./lab drill drbd --engine mariadb"
    assert measured.next_step == "./lab run semisync_wan --engine mariadb"


def test_an_unknown_state_transfer_is_refused(monkeypatch, refused):
    """LAB_SST is looked at before a node would fail by it."""
    monkeypatch.setenv("LAB_SST", "xtrabackup")

    assert "mariabackup or rsync" in refused(project.check_state_transfer).expected


@pytest.mark.parametrize("name", OTHERS)
def test_every_replica_replicates_across_a_link(name):
    """Each database but the source is the target of a link, whose port follows from its server id and is published."""
    topology, file = catalogue.topology(name), read(COMPOSE / f"{name}.yaml")
    into = {link.target: link for link in topology.links}
    replicas = [node.name for node in topology.nodes if node.role != "source"]
    databases = [each for each in file["services"] if "LAB_ROLE" in resolved(file, each).get("environment", {})]

    assert sorted(into) == sorted(replicas) == sorted(set(databases) - {topology.source.name})
    for replica, link in into.items():
        command = " ".join(file["services"][replica]["command"])
        assert link.port == 21_000 + int(re.search(r"--server-id=(\d+)", command)[1])
        assert f"127.0.0.1:{HOST_PORTS}:{link.port}" in file["services"]["toxiproxy"]["ports"]


# --- least power ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topology", "service"), services())
def test_every_service_has_the_least_power(topology, service):
    """All capabilities dropped but that of a sidecar or a machine for its own network; no namespace of the host's."""
    found = resolved(read(COMPOSE / f"{topology}.yaml"), service)
    machine = found.get("image") == "replication-lab/vm"

    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert found.get("cap_add", []) == (["NET_ADMIN"] if service.startswith("sidecar") or machine else [])
    assert found.get("network_mode", "service:sidecar").startswith("service:sidecar")
    assert found.get("devices", []) == (["/dev/net/tun"] if machine else [])
    assert {"privileged", "pid", "ipc", "userns_mode"}.isdisjoint(found)


def test_nothing_anywhere_is_privileged():
    """No Compose file mentions privileged, and no image of others gets more than the four that its entrypoint needs."""
    for path in COMPOSE.rglob("*.yaml"):
        assert "privileged:" not in path.read_text().replace("no-new-privileges:", ""), path
    parts = read(COMPOSE / "_parts.yaml")["services"]
    added = {name: service["cap_add"] for name, service in parts.items() if "cap_add" in service}

    assert added == {
        "server-of-others": ["CHOWN", "DAC_OVERRIDE", "SETGID", "SETUID"],
        "sidecar": ["NET_ADMIN"],
        "virtual": ["NET_ADMIN"],
    }


def test_host_ports_are_loopback_only():
    """A published port is on 127.0.0.1, and no host port is fixed, so that two labs fit on one machine."""
    ports = [
        (topology, service, port)
        for topology, service in services()
        for port in resolved(read(COMPOSE / f"{topology}.yaml"), service).get("ports", [])
    ]
    free = re.compile(rf"127\.0\.0\.1:(\$\{{LAB_PORT_\w+:-)?{HOST_PORTS}\}}?:\d+")
    wrong = [each for each in ports if not free.fullmatch(each[-1])]

    assert ports
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("name", catalogue.topologies())
def test_everything_carries_the_label_of_the_lab(name):
    """Services, networks and volumes can all be found by label after their owner was killed."""
    file = read(COMPOSE / f"{name}.yaml")
    marks = [resolved(file, service)["labels"] for service in file["services"]]
    marks += [thing["labels"] for kind in ("networks", "volumes") for thing in file[kind].values()]

    assert {each[labels.LABEL] for each in marks} == {OWNER}
    mounts = [mount for each in file["services"] for mount in all_mounts(file, each)]
    used = {mount.split(":")[0] for mount in mounts}
    networks = {network for each in file["services"].values() for network in each.get("networks", ["default"])}
    assert used == set(file["volumes"]) and set(file["networks"]) == {"default", *networks}


NONE_SET = ":?none is set; ./lab writes one into compose/.env}"


def test_no_password_is_written_down():
    """Every password in a Compose file is a variable that a lab generates."""
    for path in COMPOSE.rglob("*.yaml"):
        for found in re.findall(r"(?:IDENTIFIED BY '|PASSWORD='|PASSWORD: )([^'\n]*)", path.read_text()):
            assert re.fullmatch(r"\$\{LAB_(ROOT_|REPLICATOR_)?PASSWORD" + re.escape(NONE_SET), found), path


def test_no_password_is_an_argument_of_a_process():
    """Every user of the host can read arguments; options files and the environment only the process's own user."""
    given = re.compile(r"--[a-z-]*(?:password|auth)[= ]\S|\s-p[\"$]")
    folders = (catalogue.COMPOSE, catalogue.IMAGES, catalogue.PACKAGE)
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    found = {file.name: given.findall(file.read_text(errors="replace")) for file in files}

    assert {name: lines for name, lines in found.items() if lines} == {}
