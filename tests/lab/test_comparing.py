"""Runs on a real server are compared: equal ones, one of a slower server, and one on a machine that is busy.

One lab stays up for all runs, so that a run takes seconds. Each run measures the same question in rounds of its own.
"""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments, runs
from replication_lab.lab import up
from replication_lab.model.core.noise import ACCEPT, WAIT
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.question.question import NAME, Question
from replication_lab.runner.world import World
from replication_lab.world import catalogue
from replication_lab.world.disks import overlay
from replication_lab.world.docker import images, project
from replication_lab.world.docker.lab import Lab

from tests.noise import other_programs

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(2400)]

ROUNDS, EQUAL, SLOWER = 8, 21, 3
# A commit waits for the disk, and hardly for a CPU. Equal runs of a load that computes differ on CPUs that other
# machines slow down: docs/comparing.md has their figures.
DISK = "sata-7200"
# Why a comparison is unknown whose runs had CPUs of different speed.
OF_THE_CPUS = "on the CPUs in the second run"
# A commit waits for one flush, or for two.
FAST = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 0}
SLOW = {"innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1}


@dataclass
class KeptUp(World):
    """A world whose only lab is up already, and stays up."""

    up: Lab

    def __post_init__(self) -> None:
        super().__init__()

    @contextmanager
    def lab(self, spec: LabSpec) -> Iterator[Lab]:
        yield self.up


def measured(lab: Lab, variables: dict[str, int], noise: str = WAIT) -> Path:
    """Return the folder of a run with these variables of the server, which the question does not name."""
    asked = experiments.asked(Question(topologies=["single"], vary={"clients": ["1"]}, seconds=1, rounds=ROUNDS))
    plan = Preset(NAME, ROUNDS, ROUNDS, {"seconds": 1})
    lab.node(lab.topology.source.name).server().set_global(**variables)
    request = RunRequest(replace(asked, presets={NAME: plan}), [], NAME, 7, noise)
    folder, summary = runs.run(request, print, KeptUp(lab))
    assert not summary.interrupted, "Ctrl-C ends a run, and so the tests"
    return folder


@dataclass
class Measured:
    """The folders of all runs, the oldest first."""

    equal: list[Path]
    slower: list[Path]
    busy: Path


@contextmanager
def server_on_a_disk() -> Iterator[Lab]:
    """Yield a lab of one server, whose data are on an emulated disk."""
    topology, name = catalogue.topology("single"), f"test-{secrets.token_hex(4)}"
    storage = up.storage_of("single", ["server=single"], disk=DISK, disks=0, mib=1024, backend="auto")
    images.ensure(up.image_names("mariadb", load=True, topology=topology, storage=storage))
    placed = overlay.with_backend(storage)
    lab = project.start(LabRequest(topology, "mariadb", name, load=True, storage=placed))
    try:
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module")
def measured_runs(docker, tmp_path_factory):
    """Yield equal runs, then runs of a slower server, with none but these under runs/; and a run on a busy machine."""
    with pytest.MonkeyPatch.context() as patched, server_on_a_disk() as lab:
        # The first run on a new server has another level than the others.
        patched.setattr(catalogue, "RUNS", tmp_path_factory.mktemp("first"))
        measured(lab, FAST)
        patched.setattr(catalogue, "RUNS", tmp_path_factory.mktemp("runs"))
        equal = [measured(lab, FAST) for _ in range(EQUAL)]
        slower = [measured(lab, SLOW) for _ in range(SLOWER)]
        patched.setattr(catalogue, "RUNS", tmp_path_factory.mktemp("busy"))
        with other_programs():
            busy = measured(lab, FAST, ACCEPT)
        patched.setattr(catalogue, "RUNS", equal[0].parent)
        yield Measured(equal, slower, busy)


def told(*arguments: object) -> tuple[int, str]:
    """Return the exit status of a command and what it printed."""
    found = CliRunner().invoke(cli.cli, [str(each) for each in arguments], prog_name="lab")
    return found.exit_code, found.output


def judged(found: list[tuple[int, str]]) -> list[int]:
    """Return the exit codes, without those of comparisons that are unknown because the CPUs' speed changed."""
    return [code for code, printed in found if not (code == 3 and OF_THE_CPUS in printed)]


def test_one_run_against_an_equal_one_is_never_worse_and_never_shown_not_to_be(measured_runs):
    """Each run is compared with the one after it."""
    found = [told("compare", *pair) for pair in pairwise(measured_runs.equal)]

    assert {code for code, _ in found} == {3}, found


@pytest.fixture(scope="module")
def baselines(measured_runs, tmp_path_factory):
    """Return a folder with the baselines of the first half of the equal runs."""
    folder = tmp_path_factory.mktemp("baselines")
    for run in measured_runs.equal[: EQUAL // 2]:
        code, printed = told("report", run, "--format", "baseline")
        assert code == 0, printed
        (folder / f"{run.name}.json").write_text(printed)
    return folder


def test_equal_runs_are_not_worse_than_ten_baselines(measured_runs, baselines):
    """In nineteen of twenty; a host that changes the speed of its CPUs leaves a comparison unknown."""
    found = [told("compare", baselines, run) for run in measured_runs.equal[EQUAL // 2 :]]
    codes = judged(found)

    assert 1 not in codes, found
    assert len(codes) >= len(found) / 2, found
    assert codes.count(0) >= 0.9 * len(codes), found


def test_a_slower_server_is_found(measured_runs):
    """A server that also flushes its binary log commits less often, if the CPUs were equally fast in both runs."""
    found = [told("compare", measured_runs.equal[-1], slower) for slower in measured_runs.slower]

    assert set(judged(found)) == {1}, found
    assert "sync_binlog: 0, 1" in found[0][1]


def test_a_run_on_a_busy_machine_cannot_tell(measured_runs):
    """Its figures are in doubt, whatever they are, and the reason names the noise."""
    code, printed = told("compare", measured_runs.equal[-1], measured_runs.busy)

    assert code == 3, printed
    assert "other programs used" in printed


def test_baselines_find_a_slower_run(measured_runs, baselines):
    """A baseline's file holds what is needed of its run."""
    slower = [told("compare", baselines, run) for run in measured_runs.slower]

    assert set(judged(slower)) == {1}, slower


def test_history_shows_the_change_at_the_first_run_of_the_slower_server(measured_runs):
    """No change among the equal runs that the CPUs' speed does not explain, and one at the first slower one."""
    code, printed = told("history", "throughput:clients=1", "--json")

    assert code == 0, printed
    (series,) = json.loads(printed)
    assert len(series["points"]) == EQUAL + SLOWER
    changes = [change for change in series["changes"] if not change["is_of_the_cpus"]]
    assert [change["run"] for change in changes] == [measured_runs.slower[0].name]
    assert changes[0]["ratio"] < 0.9
