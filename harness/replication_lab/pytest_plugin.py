"""pytest's front door: labs and drills as fixtures, experiments as checks, and a machine left as it was found."""

import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from replication_lab import experiments, runs
from replication_lab.lab import up
from replication_lab.model.drill_result import Result
from replication_lab.model.lab_request import LabRequest
from replication_lab.model.only import Only
from replication_lab.report import ExperimentSummary
from replication_lab.runner import drill_set
from replication_lab.world import catalogue
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import leftovers, project, signals
from replication_lab.world.docker.lab import Lab

STARTED, STARTED_ENGINE = "replication_lab.started_engine", pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lab-engine", default="mariadb", help="engines of tests/claims: names with commas, or all")


def pytest_configure() -> None:
    """End a cancelled job (SIGTERM) as by Ctrl-C: fixtures remove what they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note that one of several processes of this session (pytest-xdist) has started the engine."""
    if getattr(node, "workeroutput", {}).get(STARTED):
        node.config.stash[STARTED_ENGINE] = True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop an engine that this session started, once the last of its processes has finished with it."""
    if config.stash.get(STARTED_ENGINE, False):
        docker_engine.stop()


def engines_of(config: pytest.Config, experiment: str) -> list[str]:
    """Return the engines that a claims test runs on; `all` means every one whose image can be built here."""
    asked = config.getoption("--lab-engine")
    if asked != "all":
        return asked.split(",")
    return runs.available(experiments.load(experiment))


def quietly(line: str) -> None:
    """Print a line: pytest captures it and shows it with a failure."""
    print(line)


def run_to_its_end(experiment: str, engines: str, preset: str, claims: Sequence[str] = ()) -> ExperimentSummary:
    """Return the summary of a run; raise its interruption, after which no verdict may pass and no test may follow.

    With `claims` only these are judged, as by `lab run --claim`.
    """
    asked = experiments.chosen(experiments.load(experiment), preset, {}, Only(claims=list(claims)))
    folder, summary = runs.run(asked, engines.split(","), preset, 7, quietly)
    print(f"record and report: {folder}")
    runs.raise_interruption(summary)
    return summary


@pytest.fixture(scope="session")
def docker(pytestconfig: pytest.Config) -> object:
    """Return the client of the Docker engine, which is started or installed if need be and stopped at the end."""
    if not docker_engine.is_running():
        # Of several processes the first one stops nothing: the one that distributes the tests does, at the end.
        if hasattr(pytestconfig, "workeroutput"):
            pytestconfig.workeroutput[STARTED] = True
        else:
            pytestconfig.stash[STARTED_ENGINE] = True
    return docker_engine.ensure()


@pytest.fixture(scope="session")
def new_lab(docker: object) -> Callable[..., Lab]:
    """Start a lab with a unique name; the caller's fixture removes it."""

    def start(topology: str, engine: str = "mariadb", toxics: dict[str, str] | None = None) -> Lab:
        name = f"test-{topology}-{secrets.token_hex(3)}"
        return up.up(LabRequest(catalogue.topology(topology), engine, name, toxics or {}, keep=False), quietly)

    return start


@pytest.fixture(scope="module")
def semisync(new_lab: Callable[..., Lab]) -> Iterator[Lab]:
    """Yield a proved semi-synchronous pair 85 ms apart, shared by a module's tests; each leaves it as it found it."""
    lab = new_lab("semisync")
    yield lab
    with signals.signals_held():
        lab.down()


@pytest.fixture(scope="session")
def judged(docker: object) -> Callable[..., ExperimentSummary]:
    """Return the summary of an experiment on an engine (or several, with commas) by a preset, run once a session.

    With `claims` only these are judged, and the run ends once they are decided.
    """
    known: dict[tuple[str, ...], ExperimentSummary] = {}

    def run(experiment: str, engine: str, preset: str = "quick", claims: Sequence[str] = ()) -> ExperimentSummary:
        asked = (experiment, engine, preset, *claims)
        if asked not in known:
            known[asked] = run_to_its_end(experiment, engine, preset, claims)
        return known[asked]

    return run


@pytest.fixture(scope="module")
def drill_labs(docker: object) -> Iterator[Callable[[str], drill_set.Labs]]:
    """Return the lab that the drills of a topology share, by the topology's name; remove that of the one before."""
    known: dict[str, drill_set.Labs] = {}

    def of(topology: str) -> drill_set.Labs:
        for other in set(known) - {topology}:
            known.pop(other).renew()
        return known.setdefault(topology, drill_set.Labs(topology, "mariadb", quietly, clocks_move=True))

    yield of
    for own in known.values():
        own.renew()


@pytest.fixture
def drilled(drill_labs: Callable[[str], drill_set.Labs], tmp_path: Path) -> Callable[..., Result]:
    """Return the result of a drill by topology and name: figures, verdicts, doubts. A seed is replayed."""

    def do(topology: str, name: str, seed: int = 7) -> Result:
        ledger = tmp_path / f"{name}-{seed}"
        evidence = drill_labs(topology).do(drill_set.load(topology, name), seed, ledger)
        return drill_set.judged(evidence, ledger)

    return do


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail, at the end of a session, if a lab that it started is left, also after failures."""
    yield
    if docker_engine.is_running():
        left = [name for name, lab in project.all_labs().items() if lab.is_own()]
        for name in left:
            leftovers.remove(name)
        assert not left, f"the session had to remove {', '.join(left)}"
