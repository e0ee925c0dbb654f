"""Is every engine described in full, and one that does not fit refused with the reason?"""

import pytest
from replication_lab import experiments
from replication_lab.model.topology import parse_topology
from replication_lab.world import catalogue
from replication_lab.world.docker import bake_file

from compose_files import COMPOSE, read


@pytest.mark.parametrize("name", sorted(catalogue.engines()))
def test_every_engine_has_its_settings_image_and_dialect(name):
    """An engine can be asked for: a Compose file, an image service per origin, and a bake target if local."""
    engine, parts = catalogue.engines()[name], read(COMPOSE / "_parts.yaml")["services"]

    assert (COMPOSE / "engines" / f"{name}.yaml").is_file()
    if "local" in engine.images:
        assert parts[f"local-{name}"] == {"image": f"replication-lab/{name}"}
        assert bake_file.target(name) in bake_file.targets()
        assert (catalogue.IMAGES / name / "Dockerfile").is_file()
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

    assert experiment.name == name and experiment.question.endswith("?")
    assert set(experiment.engines) <= set(catalogue.engines())
    assert {"quick", "full"} <= set(experiment.presets)
    for case in experiment.cases:
        assert case.needs <= {feature for engine in catalogue.engines().values() for feature in engine.features}
        topology = catalogue.topology(experiment.lab_of(case).topology)
        for link, toxic in case.settings.get("toxics", {}).items():
            topology.link(link)
            catalogue.toxic(toxic)


@pytest.mark.parametrize("topology", catalogue.topologies())
@pytest.mark.parametrize("name", sorted(catalogue.engines()))
def test_an_engine_is_taken_or_refused_with_the_reason(name, topology, refused):
    """Each pair of engine and topology is possible, or the data say why it is not."""
    engine, found = catalogue.engines()[name], catalogue.topology(topology)
    origin = min(engine.images)
    if topology in catalogue.topologies_for(name):
        assert catalogue.engine_for(found, name, origin) is engine
    else:
        error = refused(catalogue.engine_for, found, name, origin)
        assert engine.lacks[found.replication] in error.found and name not in error.expected.split(", ")


def test_a_reason_is_given_for_nothing_that_an_engine_has():
    """What an engine lacks is no feature of it."""
    for name, engine in catalogue.engines().items():
        assert not engine.features & set(engine.lacks), name


def test_one_server_alone_is_a_topology_without_links():
    """It has a source, no replicas, and no link to put a toxic on."""
    single = catalogue.topology("single")

    assert (single.replication, single.links, single.replicas) == ("none", (), ())
    assert single.source.name == "server"


def test_a_lonely_server_must_be_one(refused):
    """Two sources and no link between them are a mistake."""
    text = (COMPOSE / "single.yaml").read_text()
    second = text.replace("\n  load:", "\n  other:\n    extends: {file: _parts.yaml, service: source}\n  load:", 1)
    error = refused(parse_topology, "broken", second)

    assert "has the sources server, other" in error.found


def test_an_unknown_experiment_suggests_the_nearest(refused):
    """A mistyped experiment is answered with the one that was meant."""
    assert "did you mean semisync_wan?" in refused(experiments.load, "semisync-wan").found
