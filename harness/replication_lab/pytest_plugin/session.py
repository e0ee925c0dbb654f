"""One process of a test session: it starts labs for tests, and removes all of them in time."""

import secrets
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.condition import parse_links
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.storage import AUTO
from replication_lab.model.question.server_options import options_by_node
from replication_lab.pytest_plugin import FAILED, KEPT, STARTED, given, said_by
from replication_lab.pytest_plugin.handles import Acting, RunningLab
from replication_lab.pytest_plugin.recorded import Drills, Experiments
from replication_lab.world import catalogue, folders, own, signals
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.lab import Lab
from replication_lab.world.given_texts import read

TOPOLOGY = "semisync"


class LabSession:
    """The labs of this process; files of the user's are searched in the project that the tests are of."""

    def __init__(self, config: pytest.Config):
        self._config = config
        self.policy, self.noise, self.preset = (given(config, name) for name in ("unknown", "noise", "preset"))
        self.keeps = bool(given(config, "keep"))
        self._kept = said_by(config, KEPT)
        self._left: list[Acting] = []
        self._project = own.of_project(config.rootpath)

    def __enter__(self) -> "LabSession":
        self._project.__enter__()
        # A job that is cancelled, or whose terminal is closed: fixtures remove what they started, as after Ctrl-C.
        self._before = signals.handle((signal.SIGTERM, signal.SIGHUP))
        return self

    def __exit__(self, *_: object) -> None:
        signals.restore(self._before)
        self._project.__exit__(None, None, None)

    def engine(self) -> Any:
        """Return the client of the Docker engine, which is started if need be, and then stopped after all tests."""
        if not docker_engine.is_running():
            said_by(self._config, STARTED).append("yes")
        return docker_engine.ensure()

    @contextmanager
    def labs(self, node: pytest.Item | pytest.Collector, engine: str) -> Iterator[Callable[..., RunningLab]]:
        """Yield a function that starts a lab; remove its labs at the end of the block, in any case.

        With --lab-keep they stay up if a test of `node` has failed.
        """
        started: list[Lab] = []

        def start(topology: str = TOPOLOGY, **asked: Any) -> RunningLab:
            __tracebackhide__ = True
            found = self.start(topology, **{"engine": engine, **asked})
            started.append(found)
            return RunningLab(found, self.policy, self._left)

        try:
            yield start
        finally:
            keep = self.keeps and node.stash.get(FAILED, False)
            for each in started:
                self.keep(each) if keep else remove(each)

    def start(  # noqa: PLR0913 - an argument for each option of `lab up`
        self,
        topology: str,
        *,
        engine: str = "",
        rtt: str = "",
        toxics: Mapping[str, str] | None = None,
        storage: Mapping[str, str] | Sequence[str] | str = (),
        disk: str = "ssd",
        disks: int = 0,
        mib: int = 2048,
        settings: Mapping[str, str | int] | None = None,
        cnf: Mapping[str, str | Path] | str | Path | None = None,
        init: Sequence[str | Path] | str | Path = (),
    ) -> Lab:
        """Start a lab with a unique name: the options of `lab up`; `rtt` is the condition of all links."""
        self.engine()
        found = catalogue.topology(topology)
        conditions = {**{link.name: rtt for link in found.links if rtt}, **(toxics or {})}
        return up.up(
            LabRequest(
                found,
                engine or catalogue.default_engine(topology),
                f"test-{topology}-{secrets.token_hex(4)}",
                parse_links([f"{link}={condition}" for link, condition in conditions.items()], "toxics"),
                up.storage_of(topology, _texts(storage), disk=disk, disks=disks, mib=mib, backend=AUTO),
                keep=False,
                options=options_by_node(
                    {name: str(value) for name, value in (settings or {}).items()},
                    {name: read(Path(path)) for name, path in _by_node(cnf).items()},
                    [node.name for node in found.nodes],
                ),
                init=tuple(read(Path(path)) for path in ([init] if isinstance(init, str | Path) else init)),
            ),
            # pytest captures it and shows it with a failure.
            print,
        )

    def keep(self, lab: Lab) -> None:
        """Leave a lab up after the session, and note how to reach and remove it."""
        up.leave_up(lab, lambda line: self._kept.append(folders.as_typed(line)))
        with suppress(LabError):
            reached = RunningLab(lab, "fail").env.items()
            self._kept += [f"  {name}={value}" for name, value in reached if name.endswith("DSN")]

    def note(self, line: str) -> None:
        """Print a line of a run; keep the one by which it says that its lab stays up."""
        print(line)
        if self.keeps and " stays up: " in line:
            self._kept.append(folders.as_typed(line))

    def recover_forgotten(self) -> None:
        """Recover the faults that a test left, the last one first, also if one of them is not proved to the end."""
        with ExitStack() as stack:
            for acting in self._left:
                stack.callback(acting.recover)
            self._left.clear()

    def name_the_command(self, error: BaseException | None) -> None:
        """Let an error of the lab name the command as it is typed here."""
        if isinstance(error, LabError):
            error.found, error.expected, error.next_step = map(
                folders.as_typed, (error.found, error.expected, error.next_step)
            )

    def drills(self, engine: str) -> Drills:
        self.engine()
        return Drills(engine, self.policy, self.keeps, self.note)

    def experiments(self, engine: str) -> Experiments:
        self.engine()
        return Experiments(engine, self.policy, self.preset, self.noise, self.keeps, self.note)


def remove(lab: Lab) -> None:
    """Remove a lab; a second Ctrl-C cannot stop it."""
    with signals.signals_held():
        lab.down()


def _texts(storage: Mapping[str, str] | Sequence[str] | str) -> list[str]:
    if isinstance(storage, str):
        return [storage]
    return [f"{node}={level}" for node, level in storage.items()] if isinstance(storage, Mapping) else list(storage)


def _by_node(cnf: Mapping[str, str | Path] | str | Path | None) -> dict[str, str | Path]:
    """Return the files by the setting that names the node: {"replica.cnf": FILE}, or {"cnf": FILE} for all nodes."""
    if cnf is None:
        return {}
    return {f"{node}.cnf": path for node, path in cnf.items()} if isinstance(cnf, Mapping) else {"cnf": cnf}
