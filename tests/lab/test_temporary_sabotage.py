"""A temporary table that is not where it should be is noticed on real servers, whatever their settings say."""

import secrets
from dataclasses import replace

import pytest
from replication_lab import experiments
from replication_lab.lab import up
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.runner.rounds import Run
from replication_lab.runner.session import EngineSession
from replication_lab.world import catalogue, signals
from replication_lab.world.docker import images, project
from replication_lab.world.journal import Journal

KNOWN = experiments.load("temporary_tables")
SIZES = {"queries": 5, "iterations": 1}
CASES = {"mariadb": "sort_id-aria", "mysql-8.0": "sort_id-innodb"}


@pytest.fixture(scope="module", params=["mariadb", pytest.param("mysql-8.0", marks=pytest.mark.long)])
def lab(request, docker):
    """Yield one server with the published tables; each test leaves them as it found them."""
    topology = catalogue.topology("single")
    images.ensure(up.image_names(request.param, load=True, topology=topology))
    lab = project.start(LabRequest(topology, request.param, f"test-{secrets.token_hex(4)}", load=True))
    KNOWN.prepare(lab)
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture
def doubts(lab, tmp_path):
    """Return the doubts about one measurement, as one text."""

    def measured():
        small = replace(KNOWN, presets={"sabotage": Preset("sabotage", 2, 2, SIZES)})
        request = RunRequest(small, [lab.engine], "sabotage", 7)
        run = Run(request, Journal("sabotage", runs=tmp_path), tell=lambda line: None)
        run.journal.write(run.opening())
        session = EngineSession(run, {LabSpec(lab.topology.name, lab.engine): lab}, lab.engine)
        return "; ".join(session._measure(KNOWN.case(CASES[lab.engine]), 1).reasons_to_doubt)

    return measured


def test_tables_that_went_to_disk_are_not_doubted(doubts):
    """The counter-check."""
    assert doubts() == ""


def test_tables_that_fit_into_memory_are_noticed(lab, doubts):
    """tmp_table_size is set back: no rows are written by the storage engine on disk."""
    server = lab.node("server").server()
    server.execute(f"SET GLOBAL tmp_table_size = {16 << 20}")
    try:
        told = doubts()
    finally:
        server.execute("SET GLOBAL tmp_table_size = 1024")

    mechanism = CASES[lab.engine].partition("-")[2]
    assert f"only {mechanism} wrote the temporary tables' rows: expected at least 45000" in told


def test_a_query_that_needs_no_temporary_table_is_noticed(lab, doubts):
    """An index over the column gives the groups by itself."""
    server = lab.node("server").server()
    server.execute("CREATE INDEX by_id ON lab.sort_id (id)")
    try:
        told = doubts()
    finally:
        server.execute("DROP INDEX by_id ON lab.sort_id")

    assert "the plan is the published one: expected ALL, 10000 rows, Using temporary, found index" in told
