"""pytest's front door: labs as fixtures, experiments as regression checks, and a machine left as it was found."""

import secrets
from collections.abc import Callable, Iterator

import pytest

from harness import experiments, labs, running
from harness.report import Summary
from harness.world import catalogue, compose, docker_engine, images
from harness.world.compose import Lab


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", default="mariadb", help="engines of tests/claims: names with commas between, or all")


def engines_of(config: pytest.Config, experiment: str) -> list[str]:
    """The engines that a claims test runs on: as asked, `all` being every one whose image can be built here."""
    asked = config.getoption("--engine")
    if asked != "all":
        return asked.split(",")
    return [
        name for name in experiments.load(experiment).engines if images.source() in catalogue.engines()[name].images
    ]


def quietly(line: str) -> None:
    """pytest captures what is printed and shows it with a failure."""
    print(line)


@pytest.fixture(scope="session")
def docker() -> Iterator[object]:
    """The Docker engine, started or installed if need be; what the tests started they stop."""
    was_running = docker_engine.is_running()
    yield docker_engine.ensure()
    if not was_running:
        docker_engine.stop()


@pytest.fixture(scope="session")
def new_lab(docker: object) -> Callable[..., Lab]:
    """Start a lab of its own name; the caller's fixture takes it down."""

    def start(topology: str, engine: str = "mariadb", **options: object) -> Lab:
        return labs.up(
            topology, engine, name=f"test-{topology}-{secrets.token_hex(3)}", tell=quietly, keep=False, **options
        )

    return start


@pytest.fixture(scope="module")
def semisync(new_lab: Callable[..., Lab]) -> Iterator[Lab]:
    """A proved semi-synchronous pair 85 ms apart, shared by a module's tests; each leaves it as it found it."""
    lab = new_lab("semisync")
    yield lab
    with compose.signals_held():
        lab.down()


@pytest.fixture(scope="session")
def judged(docker: object, pytestconfig: pytest.Config) -> Callable[[str, str], Summary]:
    """The summary of an experiment's quick preset on an engine, run once a session."""
    known: dict[tuple[str, str], Summary] = {}

    def run(experiment: str, engine: str) -> Summary:
        if (experiment, engine) not in known:
            folder, summary = running.run(experiments.load(experiment), [engine], "quick", 7, quietly)
            print(f"record and report: {folder}")
            known[experiment, engine] = summary
        return known[experiment, engine]

    return run


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """At the end of a session there is no lab that it started, also after failures."""
    yield
    if docker_engine.is_running():
        left = [name for name, lab in compose.all_labs().items() if lab.is_own()]
        for name in left:
            compose.remove(name)
        assert not left, f"the session had to remove {', '.join(left)}"
