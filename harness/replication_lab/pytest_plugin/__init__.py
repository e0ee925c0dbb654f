"""pytest's front door: labs, drills and verdicts as fixtures of any suite.

A session that uses no fixture imports this module and pytest, nothing else of the lab: no Docker, no statistics.
"""

import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from replication_lab.pytest_plugin.answers import Answer
    from replication_lab.pytest_plugin.handles import RunningLab
    from replication_lab.pytest_plugin.recorded import Drilled, Judged
    from replication_lab.pytest_plugin.session import LabSession

FAILED = pytest.StashKey[bool]()
SESSION = pytest.StashKey["LabSession"]()
# What a process of pytest-xdist hands to the one that prints the summary.
KEPT, STARTED = "replication_lab.kept", "replication_lab.started_engine"
# Each is an option --lab-NAME and a key lab_NAME of the configuration file.
UNKNOWN, NOISE = ("fail", "skip", "xfail"), ("wait", "stop", "accept")
OPTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "engine": (
        "",
        "server to test on: a name from `lab list engines` or a version such as mysql:8.4; with several, separated by "
        "commas, or `all`, each test that uses a lab runs once for each",
        {"metavar": "ENGINE[,ENGINE]"},
    ),
    "preset": ("quick", "preset of the experiments of lab_judge; default: quick", {"metavar": "NAME"}),
    "unknown": ("fail", "what a test does if a verdict is UNKNOWN; default: fail", {"choices": UNKNOWN}),
    "noise": ("wait", "what a measurement does while other programs use the CPUs; default: wait", {"choices": NOISE}),
}
KEEP_HELP = "leave the lab of a failed test up, and print how to reach and remove it"
SCOPES = ("module", "session", "class", "package")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lab", "replication lab")
    for name, (default, says, how) in OPTIONS.items():
        group.addoption(f"--lab-{name}", default=None, help=says, **how)
        parser.addini(f"lab_{name}", says, default=default)
    group.addoption("--lab-keep", action="store_true", default=None, help=KEEP_HELP)
    parser.addini("lab_keep", KEEP_HELP, type="bool", default=False)
    parser.addini("lab_cluster_scope", f"scope of the fixture lab_cluster: {', '.join(SCOPES)}", default="module")


def pytest_configure(config: pytest.Config) -> None:
    """Add the fixtures for containers of Testcontainers, where that library is installed."""
    if find_spec("testcontainers"):
        config.pluginmanager.import_plugin("replication_lab.pytest_plugin.containers")


def given(config: pytest.Config, name: str) -> Any:
    """Return an option, or the key of the configuration file if the option is not given."""
    option = config.getoption(f"lab_{name}")
    found = config.getini(f"lab_{name}") if option is None else option
    choices = OPTIONS[name][2].get("choices") if name in OPTIONS else None
    if choices and found not in choices:
        raise pytest.UsageError(f"lab_{name} is {found!r}; expected one of {', '.join(choices)}")
    return found


# --- which engine -----------------------------------------------------------------------------------------------------


def engines(config: pytest.Config) -> list[str]:
    """Return the engines that were asked for; an empty text stands for the default of a topology."""
    asked = given(config, "engine")
    if asked != "all":
        return str(asked).split(",")
    from replication_lab.world import catalogue

    return [name for name, engine in catalogue.engines().items() if not engine.image]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses a lab once for each engine, if several are asked for."""
    if "lab_engine" in metafunc.fixturenames and len(found := engines(metafunc.config)) > 1:
        metafunc.parametrize("lab_engine", found, indirect=True, scope="session")


@pytest.fixture(scope="session")
def lab_engine(request: pytest.FixtureRequest) -> str:
    """Return the engine of --lab-engine; an empty text for the default of each topology."""
    return getattr(request, "param", engines(request.config)[0])


# --- fixtures ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _lab_session(pytestconfig: pytest.Config) -> "Iterator[LabSession]":
    """Yield what this process has of the lab: it starts labs, and removes at the end what is left of them."""
    from replication_lab.pytest_plugin.session import LabSession

    with LabSession(pytestconfig) as session:
        pytestconfig.stash[SESSION] = session
        yield session
        del pytestconfig.stash[SESSION]


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, _lab_session: "LabSession", lab_engine: str
) -> "Iterator[Callable[..., RunningLab]]":
    """Return a function that starts a lab of its own for this test; `lab("async", toxics={…}, settings={…})`.

    The labs are removed at the end of the test. A fault that the test left is recovered and proved before that.
    """
    with _lab_session.labs(request.node, lab_engine) as start:
        yield start


def _cluster_scope(fixture_name: str, config: pytest.Config) -> Any:
    scope = config.getini("lab_cluster_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"lab_cluster_scope is {scope!r}; expected one of {', '.join(SCOPES)}")
    return scope


@pytest.fixture(scope="session")
def lab_cluster_options() -> dict[str, Any]:
    """Return the arguments of the lab of lab_cluster; define a fixture of this name to have another one."""
    return {}


@pytest.fixture(scope=_cluster_scope)
def lab_cluster(
    request: pytest.FixtureRequest, _lab_session: "LabSession", lab_engine: str, lab_cluster_options: dict[str, Any]
) -> "Iterator[RunningLab]":
    """Yield one lab for all tests of a module, or of another scope: the key lab_cluster_scope.

    A fault that a test injects and does not recover is recovered at the end of that test.
    """
    with _lab_session.labs(request.node, lab_engine) as start:
        yield start(**lab_cluster_options)


@pytest.fixture(scope="session")
def lab_drill(_lab_session: "LabSession", lab_engine: str) -> "Callable[..., Drilled]":
    """Return a function that runs a drill, by name or from a YAML file, on a lab of its own, once a session."""
    return _lab_session.drills(lab_engine)


@pytest.fixture(scope="session")
def lab_judge(_lab_session: "LabSession", lab_engine: str) -> "Callable[..., Judged]":
    """Return a function that runs an Experiment, one by name, or a question's YAML file, once a session."""
    return _lab_session.experiments(lab_engine)


# --- what a test leaves, and what it says when it fails ---------------------------------------------------------------


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the whole of a verdict to the assertion that failed on it; note the failure for --lab-keep."""
    error = call.excinfo.value if call.excinfo else None
    _explain(error)
    if session := item.config.stash.get(SESSION, None):
        session.name_the_command(error)
    report: pytest.TestReport = yield
    if report.failed:
        for node in item.listchain():
            node.stash[FAILED] = True
    return report


def _explain(error: BaseException | None) -> None:
    # The answers of a phase that passed are taken as well: they say nothing of the next test.
    module = sys.modules.get("replication_lab.pytest_plugin.answers")
    asked: list[Answer] = module.take_asked() if module else []
    said = "\n\n".join(dict.fromkeys(each.text for each in asked))
    if said and isinstance(error, AssertionError):
        error.args = (f"{error}\n\n{said}",)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Recover the faults that a test left, and prove that they are gone, before its labs are removed."""
    if session := item.config.stash.get(SESSION, None):
        session.recover_forgotten()
    return (yield)


# --- the end of a session ---------------------------------------------------------------------------------------------


def pytest_keyboard_interrupt() -> None:
    """Do not raise an interruption again while fixtures remove what they started."""
    if module := sys.modules.get("replication_lab.world.signals"):
        module.noticed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of pytest-xdist says at its end: labs that stay up, an engine that it started."""
    said = getattr(node, "workeroutput", None) or {}
    for key in (KEPT, STARTED):
        node.config.stash.setdefault(_of_workers, {}).setdefault(key, []).extend(said.get(key, []))


_of_workers = pytest.StashKey[dict[str, list[str]]]()


def said_by(config: pytest.Config, key: str) -> list[str]:
    """Return the list into which this process writes what the one that prints the summary has to know."""
    if hasattr(config, "workeroutput"):
        return config.workeroutput.setdefault(key, [])
    return config.stash.setdefault(_of_workers, {}).setdefault(key, [])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how to reach and remove the labs that --lab-keep left up."""
    if kept := config.stash.get(_of_workers, {}).get(KEPT):
        terminalreporter.section("labs that stay up")
        for line in kept:
            terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop a Docker engine that this session started, once the last of its processes has finished with it."""
    if config.stash.get(_of_workers, {}).get(STARTED):
        from replication_lab.world.docker import engine

        engine.stop()
