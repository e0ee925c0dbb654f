"""A lab while it is viewed: the load, the threads that watch it, one sample a second for all viewers, the commands."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from replication_lab import VERSION, replication
from replication_lab.lab import disks, killed_views
from replication_lab.live import node_control
from replication_lab.live.link_control import LinkControl
from replication_lab.live.node_control import NodeControl
from replication_lab.live.node_watch import DiskWatch
from replication_lab.live.recorder import Recorder
from replication_lab.live.sampler import Sampler
from replication_lab.live.tally import LedgerCheck
from replication_lab.live.ticking import Ticking
from replication_lab.live.viewer_actions import ViewerActions, drill_of
from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.lab.topology import Link
from replication_lab.model.live import view
from replication_lab.model.live.view import Gone, Level, ViewedState
from replication_lab.workloads.ledger import TABLE
from replication_lab.workloads.ledger import Ledger as LedgerLoad
from replication_lab.world import at_once, catalogue, clock, lock, signals
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import write_whole

Shown = ViewedState | Gone
Put = Callable[[Shown], object]


class Unknown(Exception):
    """An error for a link, node or action that does not exist; `__cause__` is the LabError."""


class Impossible(Exception):
    """An error for a command that is not possible now; `__cause__` is the LabError."""


EVERY_SECONDS = 1.0
# A lab counts as removed when it has had no container for so many samples: a moment of a busy engine is none.
GONE_AFTER, NOTES = 3, 10
Found = TypeVar("Found")


class ViewSession:
    """A lab that is shown; made by `viewing`.

    Each command returns at once, or raises LabError with what does not fit, or Impossible or Unknown because of one.
    """

    def __init__(self, lab: Lab, clients: int, rate: float, recorded: Callable[[Path], object]):
        self._recorded, self.lab, self.clients, self.rate = recorded, lab, clients, rate
        self._actions = ViewerActions()
        self._links = {link.name: self._control_of(link) for link in lab.topology.links}
        emulated = disks.by_node(lab)
        self._controls = {
            name: NodeControl(lab, name, emulated.get(name, {}), self._node_changed)
            for name in replication.of(lab).names
        }
        watched = {name: DiskWatch(name, found) for name, found in emulated.items()}
        self.sampler = Sampler(lab, clients, rate, self._controls, watched, self._links, self._actions)
        self._route, self._roles, self.tally = self.sampler.route, self.sampler.roles, self.sampler.tally
        self._written_at = self._route.node
        self._ledger_check = LedgerCheck(lab, self.tally, lambda: self._route.node, lambda: self.sampler.at, self.show)
        self._recorder = Recorder(lab, self.tally)
        self._samples: deque[view.ViewedSample] = deque(maxlen=view.HISTORY_SECONDS)
        self._notes: deque[str] = deque(maxlen=NOTES)
        self._viewers: list[Put] = []
        self._lock = threading.Lock()
        self._levels: dict[str, Level] = {}
        self._empty = 0
        self.gone = threading.Event()
        self.failure: BaseException | None = None
        self.tickings = [
            *(watch.ticking for watch in self.sampler.watches.values()),
            *(disk.ticking for disk in self.sampler.disks.values()),
            self._roles.ticking,
            Ticking("containers", self._look_at_containers, EVERY_SECONDS),
            Ticking("sample", self._tick, EVERY_SECONDS),
        ]

    # -- shown -----------------------------------------------------------------------------------------------------

    def hello(self) -> view.Hello:
        toxics = [catalogue.toxic(name) for name in catalogue.toxics()]
        return view.Hello(
            version=VERSION,
            lab=self.lab.name,
            topology=self.lab.topology.name,
            about=self.lab.topology.about,
            engine=self.lab.engine,
            waits_on=self.sampler.kind.waits_on,
            toxics=[view.Choice(toxic.name, toxic.about) for toxic in toxics],
            samples=list(self._samples),
        )

    def subscribe(self, put: Put) -> Callable[[], None]:
        """Call `put` with every state from now on, from any thread; return what ends that."""
        with self._lock:
            self._viewers.append(put)

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._viewers.remove(put)

        return end

    def state(self) -> view.ViewedState:
        """Return all that is shown now."""
        at, carrying = self.sampler.at, self.sampler.carrying
        return view.ViewedState(
            at=at,
            wall=clock.now(),
            load=view.ViewedLoad(clients=self.clients, rate=self.rate, node=self._route.node),
            nodes=self.sampler.nodes(),
            links=[link.view(name in carrying) for name, link in list(self._links.items())],
            sample=self.sampler.newest,
            spans=self._actions.spans(at),
            ledger=self._ledger_check.ledger(),
            explain=self.sampler.explained(),
            recording=str(self._recorder.folder or ""),
            clicks=self._actions.count,
            notes=list(self._notes),
        )

    def show(self) -> view.ViewedState:
        """Show the state to all viewers."""
        state = self.state()
        self._tell(state)
        return state

    def _tell(self, shown: Shown) -> None:
        with self._lock:
            for put in self._viewers:
                # A viewer whose stream has just ended does not keep the others from seeing it.
                with suppress(RuntimeError):
                    put(shown)

    def fail(self, error: threading.ExceptHookArgs) -> None:
        """End the view because of a defect: without one of its threads it would show what is not so."""
        self.failure = error.exc_value
        self.end(f"an internal error occurred: {error.exc_value}")
        self.gone.set()

    def wait(self) -> None:
        """Wait until the lab is removed; raise what ended one of the view's threads."""
        self.gone.wait()
        if self.failure is not None:
            raise self.failure

    def end(self, why: str) -> None:
        """Tell all viewers that there is nothing more to see."""
        self._tell(view.Gone(why))

    # -- every second ----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        # Watch the links that a failover has made.
        for name in self._roles.links.keys() - self._links.keys():
            with suppress(LabError):
                model = self.lab.another().link(name).model
                self._links[name] = self._control_of(model)
                self._links[name].start()
        self._samples.append(self.sampler.sample())
        before, self._written_at = self._written_at, self._route.node
        if before != self._written_at:
            self._notes.append(f"Clients write to {self._written_at} instead of {before}.")
        state = self.show()
        self._recorder.note(state)
        came_back = any(node.level is Level.GOOD and self._levels.get(node.name) is Level.BAD for node in state.nodes)
        # What was found on another node says nothing of the one that clients write to now.
        if self.clients and (before != self._written_at or came_back):
            self._ledger_check.check()
        self._levels = {node.name: node.level for node in state.nodes}

    def _control_of(self, link: Link) -> LinkControl:
        return LinkControl(self.lab, link, self._link_changed, self._actions.verified)

    def _look_at_containers(self) -> None:
        before = self.sampler.containers
        with suppress(LabError):
            self.sampler.containers = self.lab.states()
            self._empty = 0 if self.sampler.containers else self._empty + 1
        if self.sampler.containers != before:
            # Without waiting for the next sample: what a node says last is not so once its container has ended.
            self.sampler.look()
            self.show()
        if self._empty >= GONE_AFTER:
            self.end(f"{self.lab.name} was removed")
            self.gone.set()

    # -- commands --------------------------------------------------------------------------------------------------

    def change_link(self, name: str, condition: str | None) -> view.Accepted:
        link = self._known("link", name, self._links)
        return view.Accepted(f"{name}: {link.ask(condition)}")

    def act_on_node(self, name: str, action: str, asked: view.ActOnNode) -> view.Accepted:
        control = self._known("node", name, self._controls)
        self._known("action", action, dict.fromkeys(node_control.ACTIONS))
        node_control.check_limits(asked.limits)
        possible = next(node.actions for node in self.sampler.nodes() if node.name == name)
        try:
            if action not in possible:
                state = self.sampler.containers.get(name, "missing")
                raise LabError(
                    f"cannot {action} {name}: it is {state}", ", ".join(possible) or "no action in this state"
                )
            control.do(action, asked)
        except LabError as error:
            raise Impossible from error
        return view.Accepted(f"{action} {name}")

    def check_ledger(self) -> view.Accepted:
        if not self.clients:
            raise Impossible from LabError("no clients are running", "--clients with 1 or more")
        self._ledger_check.check()
        return view.Accepted("comparing the ledger with the rows of every copy")

    def record(self, on: bool) -> view.Accepted:
        try:
            folder = self._recorder.begin(self.sampler.at, self.clients, self.rate) if on else self._end_record()
            if folder is None:
                raise LabError("nothing is being recorded", "a running record")
        except LabError as error:
            raise Impossible from error
        self.show()
        return view.Accepted("recording" if on else "recorded", str(folder))

    def _end_record(self) -> Path | None:
        folder = self._recorder.end(self._actions.spans(self.sampler.at))
        if folder is not None:
            self._recorded(folder)
        return folder

    def save_drill(self, name: str) -> view.Accepted:
        if not name.replace("-", "").isalnum():
            raise LabError(f"{name!r} is not a valid name of a drill", "letters, digits and -")
        topology = self.lab.topology.name
        about = f"Recorded from clicks on the live page of {topology}."
        clients = {self.lab.topology.source.name: max(self.clients, 1)}
        pause_ms = 1000 * self.clients / self.rate if self.rate else 0
        try:
            text = drill_of(self._actions.for_a_drill(self.sampler.at), topology, clients, pause_ms, about)
        except LabError as error:
            raise Impossible from error
        path = catalogue.RUNS / "drills" / topology / f"{name}.yaml"
        write_whole(path, text.encode())
        return view.Accepted("saved", str(path))

    def _known(self, kind: str, name: str, known: Mapping[str, Found]) -> Found:
        if name not in known:
            raise Unknown from unknown_name(f"{kind} of {self.lab.name}", name, known)
        return known[name]

    # -- what commands did -----------------------------------------------------------------------------------------

    def _link_changed(self, name: str, condition: str) -> None:
        self._actions.condition(name, condition, self.sampler.at, condition == self._links[name].was)
        self.show()

    def _node_changed(self, name: str, action: str, done: bool) -> None:
        control = self._controls[name]
        if done:
            # What can be done next depends on the container's state.
            self._look_at_containers()
        self._actions.action(name, action, self.sampler.at, done, control.seen)
        if done and control.seen:
            if action in (node_control.PROMOTE, node_control.WRITE_HERE):
                self._roles.promoted(name)
            self._roles.ticking.wake()
        if done and action == node_control.PROMOTE and self.clients:
            self._ledger_check.check()
        self.show()

    # -- begun and ended -------------------------------------------------------------------------------------------

    def start(self) -> None:
        for link in self._links.values():
            link.start()
        for ticking in self.tickings:
            ticking.start()

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """Let the clients write within the block."""
        if not self.clients:
            yield
            return
        load = LedgerLoad({self._route.node: self.clients}, rate=self.rate)
        kind = replication.of(self.lab.another())
        load.prepare(kind.writer())
        try:
            with load.writing(self._route.connect, self.tally.write):
                yield
        finally:
            with suppress(LabError):
                kind.lab.refresh()
                kind.server(self._route.node).execute(f"DROP TABLE IF EXISTS {TABLE}")

    def stop(self) -> None:
        """End all threads, and undo what viewers did to links and nodes."""
        for ticking in self.tickings:
            ticking.stop()
        undo = [*(link.stop for link in self._links.values()), *(node.restore for node in self._controls.values())]
        try:
            self._end_record()
        finally:
            # Also if the disk is full.
            at_once.of_each(_unless_gone, undo)


def _unless_gone(act: Callable[[], object]) -> None:
    with suppress(LabError):
        act()


def only_load(lab: Lab, clients: int) -> AbstractContextManager[object]:
    """Refuse a second load within the block: the first one to end would remove the ledger of both."""
    taken = LabError(
        f"another command writes to the ledger of {lab.name}",
        "one load per lab, and any number of viewers without a load",
        f"./lab watch --lab {lab.name} --clients 0",
    )
    return lock.held_or_refused(f"load-{lab.name}", taken) if clients else nullcontext()


@contextmanager
def viewing(
    lab: Lab, clients: int, rate: float, recorded: Callable[[Path], object] = lambda _: None
) -> Iterator[ViewSession]:
    """View a lab within the block, with a load of so many clients; afterwards its links and nodes are as before.

    `recorded` gets the folder of each record that has ended.
    """
    session, hook = ViewSession(lab, clients, rate, recorded), threading.excepthook
    threading.excepthook = session.fail
    try:
        with only_load(lab, clients), killed_views.kept(lab, writes=clients > 0), session.loaded():
            try:
                session.start()
                yield session
            finally:
                # Before the load ends: its clients may be waiting for what a viewer has stopped.
                with signals.signals_held():
                    session.stop()
    finally:
        threading.excepthook = hook
        session.end("the command that showed the lab has ended")
