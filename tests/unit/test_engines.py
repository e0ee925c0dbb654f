"""Is every engine described in full, and one that does not fit refused with the reason?"""

import pytest
from replication_lab import experiments
from replication_lab.model.lab.topology import parse_topology
from replication_lab.world import catalogue
from replication_lab.world.docker import bake_file
from replication_lab.world.mysql.dialects import dialects

from tests.records import tested
from tests.unit.compose_files import COMPOSE


@pytest.mark.parametrize("name", sorted(catalogue.engines()))
def test_every_engine_has_its_settings_image_and_dialect(name):
    """An engine can be asked for: a Compose file, a dialect, and a bake target or a vendor's image."""
    engine = catalogue.engines()[name]

    assert (COMPOSE / "engines" / f"{name}.yaml").is_file()
    assert engine.dialect in dialects()
    if not engine.image:
        assert bake_file.target(name) in bake_file.targets()
        assert (catalogue.IMAGES / name / "Dockerfile").is_file()


def test_an_unknown_engine_is_refused_with_the_nearest(refused):
    """A mistyped engine is answered with the one that was meant."""
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
        for link in case.toxics:
            topology.link(link)


@pytest.mark.parametrize("topology", catalogue.topologies())
@pytest.mark.parametrize("name", sorted(catalogue.engines()))
def test_an_engine_is_taken_or_refused_with_the_reason(name, topology, refused):
    """Each pair of engine and topology is possible, or the data say why it is not."""
    engine, found = catalogue.engines()[name], catalogue.topology(topology)
    if topology in catalogue.topologies_for(name):
        assert catalogue.engine_for(found, name) is engine
    else:
        error = refused(catalogue.engine_for, found, name)
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


@pytest.mark.whole
def test_what_was_tested_is_what_records_are_kept_of():
    """No engine is told as tested that no record shows; python -m tests.records.tested writes the file anew."""
    assert catalogue.tested() == tested.tested()
    assert set(catalogue.tested()) <= set(catalogue.engines())


def test_programs_from_an_archive_are_for_its_processor_only():
    """The archives hold programs for one processor; packages exist for the machine's own."""
    for name, engine in catalogue.engines().items():
        assert bool(engine.processors) == engine.source.startswith("Maven"), name
