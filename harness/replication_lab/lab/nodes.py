"""What a user does to nodes: stop, kill, pause, start; each by the fault of the drills, and verified."""

from collections.abc import Sequence
from typing import NamedTuple

from replication_lab import faults, replication
from replication_lab.faults.fault import Fault, proofs_of, proofs_of_recovery
from replication_lab.lab.up import refuse_in_use
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.progress import Tell
from replication_lab.model.core.proof import Proof
from replication_lab.replication import received
from replication_lab.world import lock
from replication_lab.world.docker.lab import Lab

RUNNING, PAUSED, EXITED = "running", "paused", "exited"
KILL = "KILL"
# The signals by which `lab kill` ends a server.
SIGNALS = (KILL, "TERM", "QUIT", "ABRT", "SEGV")
# The states of a container that `lab start` brings back to running.
STARTABLE = (PAUSED, EXITED, "created", "dead")


class Verb(NamedTuple):
    """A verb: the fault that it injects, or undoes; the states of a container in which it acts; the state after it."""

    fault: str
    undoes: bool
    acts_in: tuple[str, ...]
    after: str


VERBS = {
    "stop": Verb("stop", False, (RUNNING,), EXITED),
    "kill": Verb("kill", False, (RUNNING,), EXITED),
    "pause": Verb("pause", False, (RUNNING,), PAUSED),
    # Of a paused node it is `resume`.
    "start": Verb("stop", True, (EXITED, "created", "dead"), RUNNING),
    "resume": Verb("pause", True, (PAUSED,), RUNNING),
}


def act(lab: Lab, verb: str, nodes: Sequence[str], tell: Tell = lambda _line: None, signal: str = KILL) -> list[Proof]:
    """Do it to the nodes at the same time and verify it; a node that is in that state already is left as it is.

    `tell` gets what is waited for; `signal` is that of `kill`.

    LabError, and no node is changed, if one of them is in a state in which the verb does nothing.
    """
    nodes = list(dict.fromkeys(lab.topology.node(name).name for name in nodes))
    refuse_in_use(lab)
    with lock.lab_held(lab.name, f"lab {verb}"):
        return _act(lab, verb, nodes, tell, signal)


def _act(lab: Lab, verb: str, nodes: Sequence[str], tell: Tell, signal: str = KILL) -> list[Proof]:
    asked = VERBS[verb]
    states = {name: lab.node(name).state() for name in nodes}
    if verb == "start" and (paused := [name for name in nodes if states[name][0] == PAUSED]):
        others = [name for name in nodes if name not in paused]
        return [*_act(lab, "resume", paused, tell), *_act(lab, verb, others, tell)]
    for name, state in states.items():
        if state[0] not in (*asked.acts_in, asked.after):
            raise _refused(lab, name, state, asked.acts_in[0])
    changed = [name for name, (status, _) in states.items() if status != asked.after]
    if verb == "start" and changed:
        replication.of(lab).wait_until_startable(changed, tell)
    if asked.after == EXITED:
        received.keep_of_ending(lab, changed)
    same = [Proof(f"{name} was not changed", _said(states[name]), True) for name in nodes if name not in changed]
    if not changed:
        return same
    settings = {"signal": f"SIG{signal}"} if verb == "kill" else {}
    done = _done(faults.made(lab, asked.fault, changed, **settings), asked.undoes)
    return [*same, *done, *(_separate(lab) if asked.undoes and all(proof.ok for proof in done) else [])]


def _separate(lab: Lab) -> list[Proof]:
    """Return a failed proof for what shows that the nodes were written separately: they are Synced all the same."""
    what = "the nodes have the same rows"
    try:
        return [Proof(what, said, ok=False) for said in replication.of(lab).separate_histories()]
    except LabError as error:
        # The nodes serve, which is what was asked for.
        return [Proof(f"not compared whether {what}", error.found, ok=True)]


def _done(fault: Fault, undoes: bool) -> list[Proof]:
    try:
        if undoes:
            fault.recover()
            return proofs_of_recovery(fault)
        fault.inject()
        return proofs_of(fault)
    finally:
        fault.close()


def refuse_unless_running(lab: Lab, service: str) -> None:
    """Raise LabError, with the command that brings it back, if a container is stopped or paused."""
    state = lab.service(service).state()
    if state[0] != RUNNING:
        raise _refused(lab, service, state, RUNNING)


def _refused(lab: Lab, name: str, state: tuple[str, int], expected: str) -> LabError:
    is_startable = state[0] in STARTABLE and name in {node.name for node in lab.topology.nodes}
    next_step = f"./lab start {name} --lab {lab.name}" if is_startable else f"./lab status --lab {lab.name}"
    return LabError(f"{name} of {lab.name} is {_said(state)}", f"a {expected} container", next_step)


def _said(state: tuple[str, int]) -> str:
    return f"{state[0]} with status {state[1]}" if state[0] == EXITED else state[0]
