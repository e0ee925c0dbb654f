"""What the project's tests share on top of its pytest plugin: which run when, and labs, drills and verdicts as data."""

import signal
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from replication_lab import experiments, runs
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.model.record.chosen import Only
from replication_lab.probes import noise
from replication_lab.runner import drill_set
from replication_lab.runner.drill import DrillRequest, run_drill
from replication_lab.runner.rounds import PATIENCE_AT_ONCE, Run
from replication_lab.world import catalogue, clock, owners, signals
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import leftovers, project
from xdist.scheduler import LoadScopeScheduling

from tests.cpu_speed import compared, typical_loop_us
from tests.noise import ignoring_noise

pytest_plugins = ["replication_lab.pytest_plugin", "tests.chromium"]
# Projects of their own: tests/lab/test_consumer.py and tests/lab/test_outside.py run their tests.
collect_ignore = ["consumer", "lab/attached"]
CLAIMS = Path(__file__).parent / "claims"
# Files that one process runs: they share one cluster, the fixture `cluster` of tests/lab/conftest.py, or look for all
# links of Testcontainers that are left.
TOGETHER = {
    **{f"tests/lab/test_galera_{name}.py": "cluster" for name in ("drills", "network", "sabotage", "start")},
    **{f"tests/lab/test_testcontainers{name}.py": "links" for name in ("", "_ryuk")},
}
# Files that take longest: their processes would go on alone at the end if they began last. The first one begins the
# tests of the cluster, which are one process's.
LONGEST = (
    "galera_drills",
    "soak",
    "drills",
    "drbd",
    "ha",
    "recipes",
    "outside",
    "attach_kinds",
    "vm",
    "group",
    "raid_sabotage",
    "start_options",
    "netem_in_guest",
    "failover",
    "toxics",
    "asking",
    "galera_votes",
    "asking_load",
    "attach",
    "up_and_down",
    "sabotage",
    "everyday_commands",
    "consumer",
    "database",
    "bad_luck",
    "asking_command",
)


def pytest_configure():
    """End a cancelled job (SIGTERM) as by Ctrl-C, also in the process that only distributes tests."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    """Leave out what is marked long, before any lab is started for it, unless everything is asked for.

    Files that take longest come first where tests run beside each other.
    """
    # The processes of pytest-xdist collect for themselves, and do not have its option --dist.
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.path))
    for item in items:
        if CLAIMS in item.path.parents:
            item.add_marker("alone")
    if config.getoption("lab_engine") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_terminal_summary(terminalreporter, config):
    """Say at the end of the tests that measure how fast this machine is."""
    if config.option.markexpr == "alone":
        terminalreporter.line(compared(typical_loop_us()))


def _place(path):
    name = path.stem.removeprefix("test_")
    return LONGEST.index(name) if name in LONGEST and path.parent.name not in ("unit", "meta") else len(LONGEST)


def pytest_xdist_make_scheduler(config, log):
    """Let each file of tests on servers run in one process, so that no lab of a fixture is started twice."""
    if config.getoption("dist") == "loadscope":
        return OneProcessForALab(config, log)
    return None


class OneProcessForALab(LoadScopeScheduling):
    """Distributes files, and those of TOGETHER as one."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return TOGETHER.get(file, file)


# --- experiments and drills as data -----------------------------------------------------------------------------------


def engines_of(config, experiment):
    """Return the engines that a claims test runs on; `all` means every one whose image can be built here."""
    asked = config.getoption("lab_engine") or "mariadb"
    return runs.available(experiments.load(experiment)) if asked == "all" else asked.split(",")


def run_to_its_end(experiment, engines, preset, claims=()):
    """Return the summary of a run; raise its interruption, after which no verdict may pass and no test may follow.

    With `claims` only these are judged, as by `lab run --claim`.
    """
    asked = experiments.chosen(experiments.load(experiment), preset, {}, Only(claims=list(claims)))
    folder, summary = runs.run(RunRequest(asked, engines.split(","), preset, 7), print)
    print(f"record and report: {folder}")
    runs.raise_interruption(summary)
    return summary


@pytest.fixture(scope="session")
def docker(_lab_session):
    """Return the client of the Docker engine, which is started or installed if need be and stopped at the end."""
    return _lab_session.engine()


@pytest.fixture(scope="session")
def new_lab(_lab_session):
    """Start a lab with a unique name; the caller's fixture removes it."""

    def start(topology, engine="mariadb", toxics=None):
        return _lab_session.start(topology, engine=engine, toxics=toxics)

    return start


@pytest.fixture(scope="module")
def semisync(new_lab):
    """Yield a proved semi-synchronous pair 85 ms apart, shared by a module's tests; each leaves it as it found it."""
    lab = new_lab("semisync")
    yield lab
    with signals.signals_held():
        lab.down()


# Seconds that each run of `make test` waits for a quiet machine in all: on one that is busy now and then, five runs
# could wait for ten minutes each.
PATIENCE = 120


def skip_if_busy(everything, noise):
    """Skip a claim if `noise` returns why none can be decided; where everything was asked for, claims then fail."""
    if not everything and (why := noise()):
        pytest.skip(f"needs a quiet machine, or every verdict is UNKNOWN: {why}")


@pytest.fixture(scope="session")
def noise_beforehand(docker):
    """Return why no claim can be decided here: another program keeps the CPUs busy for as long as a run would wait."""
    if noise.wait_for_quiet([], PATIENCE_AT_ONCE, print):
        return ""
    with closing(noise.NoiseMeter([])) as meter:
        clock.pause(noise.WINDOW)
        return meter.read().why


@pytest.fixture(scope="session")
def judged(docker, request):
    """Return the summary of an experiment on an engine (or several, with commas) by a preset, run once a session.

    With `claims` only these are judged, and the run ends once they are decided. `make test` and `make test-all`
    skip them on a machine that is busy before the first one; `make claims` does not.
    """
    known = {}

    def run(experiment, engine, preset="quick", claims=()):
        asked = (experiment, engine, preset, *claims)
        if asked not in known:
            everything = request.config.getoption("lab_engine") == "all"
            skip_if_busy(everything, lambda: request.getfixturevalue("noise_beforehand"))
            with nullcontext() if everything else patch.object(runs, "Run", partial(Run, patience=PATIENCE)):
                known[asked] = run_to_its_end(experiment, engine, preset, claims)
        return known[asked]

    return run


@pytest.fixture(scope="module")
def drill_labs(docker):
    """Return the lab that the drills of a topology share, by the topology's name and the engine that a drill names.

    That of the one before is removed.
    """
    known = {}

    def of(topology, engine=""):
        for other in set(known) - {(topology, engine)}:
            known.pop(other).renew()
        drills = [each for each in drill_set.known()[topology] if each.engine == engine]
        asked = drill_set.lab_request(topology, catalogue.default_engine(topology), drills)
        return known.setdefault((topology, engine), drill_set.Labs(asked, print))

    yield of
    for own in known.values():
        own.renew()


@pytest.fixture
def drilled(drill_labs, tmp_path):
    """Return the result of a drill by topology and name: figures, verdicts, doubts. A seed is replayed."""

    def do(topology, name, seed=7, meanwhile=None, when="verified", as_drill=None, put_back=False, transactions=()):
        """`meanwhile` is called with the lab as soon as a line with `when` is told: the first fault has been proved.

        `as_drill` is done in place of the file's, and `put_back` tells that the lab is as before after `meanwhile`.
        """
        ledger = tmp_path / f"{name}-{seed}"
        request = DrillRequest(as_drill or drill_set.load(topology, name), seed, transactions=transactions)
        with ignoring_noise():
            if engine := request.drill.engine:
                drill_set.make_ready(topology, engine, [request.drill])
            labs = drill_labs(topology, engine)
            evidence = (
                labs.do(request, ledger) if meanwhile is None else _meddled(labs, request, ledger, (when, meanwhile))
            )
            if meanwhile and not (put_back and is_usable(evidence, request.drill)):
                labs.renew()
        # Without one every verdict is UNKNOWN, which some tests expect for another reason.
        assert ledger.exists(), f"{name} wrote no ledger"
        return drill_set.judged_as_found(evidence, ledger)

    return do


def is_usable(evidence, drill):
    """Return whether another drill can be done on the lab of one."""
    return not (evidence.doubts or evidence.failed_proofs or evidence.unrecovered or drill.changes_lab)


def _meddled(labs, request, ledger, meanwhile):
    """Run a drill on these labs with an action of others at the first line that has a word."""
    lab, pending = labs.lab(request.drill), [meanwhile]

    def tell(line):
        print(line)
        if pending and pending[0][0] in line:
            pending.pop()[1](lab)

    return run_drill(lab, request, ledger, tell)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind():
    """Fail, at the end of a session, if a lab that it started is left, also after failures."""
    yield
    if docker_engine.is_running():
        left = [name for name, lab in project.all_labs().items() if owners.owner() in lab.owners]
        for name in left:
            leftovers.remove(name)
        assert not left, f"the session had to remove {', '.join(left)}"
