"""Are topologies read strictly, and are the Compose files as safe and as complete as the lab promises?"""

import functools
import re

import pytest
import yaml

from harness import experiments
from harness.topology import parse_topology
from harness.world import catalogue, compose, images

COMPOSE = catalogue.ROOT / "compose"
OWNER = "${LAB_OWNER:-compose}"


class Loader(yaml.SafeLoader):
    """YAML as Compose reads it, with its own tags for overriding lists."""


for tag in ("!override", "!reset"):
    Loader.add_constructor(tag, lambda loader, node: loader.construct_sequence(node))


@functools.cache
def read(path) -> dict:
    return yaml.load(path.read_text(), Loader)


def resolved(file: dict, service: str, folder=COMPOSE) -> dict:
    """A service with what it extends underneath, the default engine's images throughout."""
    here = file["services"][service]
    extends = here.get("extends")
    if not extends:
        return here
    below = read(folder / extends["file"]) if "file" in extends else file
    name = re.sub(r"\$\{(\w+):-(.*?)\}", r"\2", extends["service"])
    return {**resolved(below, name, folder), **here}


def services():
    """(topology, service) of all."""
    return [
        (name, service) for name in catalogue.topologies() for service in read(COMPOSE / f"{name}.yaml")["services"]
    ]


@pytest.fixture
def text() -> str:
    """A good Compose file to spoil."""
    return (COMPOSE / "async.yaml").read_text()


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("good", "bad", "found", "expected"),
    [
        ("x-lab:", "x-labb:", "has no x-lab", "about, replication and toxics"),
        ("  about:", "  aboot:", "unknown field `aboot`", "about, replication, toxics"),
        ("  about: one", "  colour: red\n  about: one", "unknown field `colour`", "about, replication, toxics"),
        ("replication: async", "replication: asink", "'asink'; did you mean async?", "async, semisync"),
        ("replication: async", "replication: [async]", "x-lab: Expected `str`", "about, replication, toxics"),
        (
            "{source-replica: wan",
            "{source-repica: wan",
            "unknown link of broken 'source-repica'; did you mean",
            "source-",
        ),
        ('[{"name"', '{"name"', "configs.links is not JSON", "Toxiproxy's list"),
        ('"source-replica",', '"replica-to-source",', "'replica-to-source' names no two nodes", "FROM-TO"),
        ('"source-replica",', '"source-sink",', "'source-sink' names no two nodes", "FROM-TO"),
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
    """Who only writes is the source, who only reads a replica, who does both a relay."""
    chain = catalogue.topology("chain")

    assert {node.name: node.role for node in chain.nodes} == {"source": "source", "relay": "relay", "leaf": "replica"}
    assert [link.target for link in chain.links_from("relay")] == ["leaf"]
    assert chain.source.name == "source"


@pytest.mark.parametrize("name", catalogue.topologies())
def test_every_topology_parses_and_its_toxics_exist(name):
    """Each Compose file is a topology with one source, and names toxics that there are."""
    topology = catalogue.topology(name)

    assert topology.name == name and [node.role for node in topology.nodes].count("source") == 1
    assert set(topology.toxics.values()) <= set(catalogue.toxics())


@pytest.mark.parametrize("name", catalogue.topologies())
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
        assert f"127.0.0.1::{link.port}" in file["services"]["toxiproxy"]["ports"]


# --- least power ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topology", "service"), services())
def test_every_service_has_the_least_power(topology, service):
    """All capabilities dropped, no new privileges, never privileged, the host's namespaces never shared."""
    found = resolved(read(COMPOSE / f"{topology}.yaml"), service)

    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert not found.get("cap_add"), "the lab's own images need no capability"
    assert {"privileged", "network_mode", "pid", "ipc", "devices", "userns_mode"}.isdisjoint(found)


def test_nothing_anywhere_is_privileged():
    """No Compose file mentions privileged, and no vendor's image gets more than the four that its entrypoint needs."""
    for path in COMPOSE.rglob("*.yaml"):
        assert "privileged:" not in path.read_text().replace("no-new-privileges:", ""), path
    parts = read(COMPOSE / "_parts.yaml")["services"]
    added = {name: service["cap_add"] for name, service in parts.items() if "cap_add" in service}

    assert added == {"upstream": ["CHOWN", "DAC_OVERRIDE", "SETGID", "SETUID"]}


@pytest.mark.parametrize(("topology", "service"), services())
def test_host_ports_are_loopback_only(topology, service):
    """A published port is on 127.0.0.1, and no host port is fixed, so that two labs fit on one machine."""
    for port in resolved(read(COMPOSE / f"{topology}.yaml"), service).get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:(\$\{LAB_PORT_\w+:-\})?:\d+", port), port


@pytest.mark.parametrize("name", catalogue.topologies())
def test_everything_carries_the_label_of_the_lab(name):
    """Services, networks and volumes can all be found by label after their owner was killed."""
    file = read(COMPOSE / f"{name}.yaml")
    labels = [resolved(file, service)["labels"] for service in file["services"]]
    labels += [thing["labels"] for kind in ("networks", "volumes") for thing in file[kind].values()]

    assert {each[compose.LABEL] for each in labels} == {OWNER}
    used = {mount.split(":")[0] for each in file["services"].values() for mount in each.get("volumes", [])}
    assert used == set(file["volumes"]) and set(file["networks"]) == {"default"}


def test_no_password_is_written_down():
    """Every password in a Compose file is the variable that a lab generates."""
    for path in COMPOSE.rglob("*.yaml"):
        for found in re.findall(r"(?:IDENTIFIED BY '|PASSWORD='|PASSWORD: )([^'\n]*)", path.read_text()):
            assert found == "${LAB_PASSWORD:-lab}", path


# --- engines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(catalogue.engines()))
def test_every_engine_has_its_settings_image_and_dialect(name):
    """An engine can be asked for: a Compose file, an image service per origin, and a bake target if local."""
    engine, parts = catalogue.engines()[name], read(COMPOSE / "_parts.yaml")["services"]
    targets = re.findall(r'^target "(.*?)"', (catalogue.ROOT / "images" / "docker-bake.hcl").read_text(), re.M)

    assert (COMPOSE / "engines" / f"{name}.yaml").is_file()
    if "local" in engine.images:
        assert parts[f"local-{name}"] == {"image": f"replication-lab/{name}"}
        assert images.target(name) in targets
        assert (catalogue.ROOT / "images" / name / "Dockerfile").is_file()
    if "upstream" in engine.images:
        assert parts[f"upstream-{name}"]["extends"] == {"service": "upstream"}


def test_an_engine_that_cannot_be_had_is_refused(refused):
    """Percona's exists upstream only, MySQL 5.5 is built here only; the error names the variable to set."""
    assert "LAB_IMAGES=upstream" in refused(catalogue.engine, "percona", "local").next_step
    assert "LAB_IMAGES=local" in refused(catalogue.engine, "mysql-5.5", "upstream").next_step
    assert "did you mean mariadb?" in refused(catalogue.engine, "maria-db").found


@pytest.mark.parametrize("name", experiments.names())
def test_every_experiment_fits_what_there_is(name):
    """Topology, engines, features, links and toxics of an experiment exist, and it has both presets."""
    experiment = experiments.load(name)
    topology = catalogue.topology(experiment.topology)

    assert experiment.name == name and experiment.question.endswith("?")
    assert set(experiment.engines) <= set(catalogue.engines())
    assert {"quick", "full"} <= set(experiment.presets)
    for case in experiment.cases:
        assert case.needs <= {feature for engine in catalogue.engines().values() for feature in engine.features}
        for link, toxic in case.settings.get("toxics", {}).items():
            topology.link(link)
            catalogue.toxic(toxic)


def test_an_unknown_experiment_suggests_the_nearest(refused):
    """A mistyped experiment is answered with the one that was meant."""
    assert "did you mean semisync_wan?" in refused(experiments.load, "semisync-wan").found
