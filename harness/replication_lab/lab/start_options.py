"""Options that nodes are started with: a file of each node's, put into its container, and a restart."""

from collections.abc import Iterable, Mapping

from replication_lab import replication
from replication_lab.model import mysql_errors
from replication_lab.model.errors import LabError
from replication_lab.model.given_file import GivenFile
from replication_lab.model.option_file import Option, StartOptions, last_errors, options_of, refuse_reserved
from replication_lab.model.proof import Proof
from replication_lab.model.variable import is_same
from replication_lab.replication.abilities import RunsMachines
from replication_lab.world import at_once, clock
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server

# The first is read by Percona's image, the second by all others; both after every file of the lab.
PATHS = ("/etc/my.cnf.d/zz-user.cnf", "/etc/mysql/conf.d/zz-user.cnf")
START_SECONDS = 120


def is_fixed(lab: Lab, node: str, name: str) -> bool:
    """Return whether a variable needs a restart: the server refuses any change, or a file sets it by now.

    Nothing is changed.
    """
    if name in _names(_text_of(lab, node)):
        return True
    try:
        # A server looks at the variable first, and then refuses this value of any.
        lab.node(node).server().execute(f"SET GLOBAL {name} = -(no_such_column)")
    except LabError as error:
        return mysql_errors.code_of(error.__cause__) == mysql_errors.READ_ONLY_VARIABLE
    return False


def needs_restart(error: LabError) -> bool:
    """Return whether a server refused a value of a variable because it runs."""
    return mysql_errors.code_of(error.__cause__) in (mysql_errors.READ_ONLY_VARIABLE, mysql_errors.WRONG_ARGUMENTS)


def _names(text: str) -> set[str]:
    return {option.name for option in options_of(GivenFile("", text))} if text else set()


def run_with(lab: Lab, wanted: Mapping[str, StartOptions]) -> None:
    """Let each node run with these options; restart those that run with others.

    Raise LabError, with every node as it was, for an option that a server does not start with, ignores or changes.
    """
    for options in wanted.values():
        for option in options.options:
            refuse_reserved(option)
    before = {node: _text_of(lab, node) for node in wanted}
    changed = {node: options for node, options in wanted.items() if options.text != before[node]}
    if not changed:
        return
    refuse_unable(lab)
    try:
        for names in _turns(lab, changed):
            _restart(lab, {name: changed[name].text for name in names})
            refuse_unproved(lab, {name: changed[name] for name in names})
    except LabError:
        for names in _turns(lab, [node for node in changed if before[node] != _text_of(lab, node)]):
            _restart(lab, {name: before[name] for name in names})
        raise


def refuse_unable(lab: Lab) -> None:
    """Raise LabError for a lab whose servers run in virtual machines, where a restart is one of the machine."""
    machines = [node for node, each in array.arrays(lab).items() if each.storage.backend == overlay.MACHINE]
    if isinstance(replication.of(lab), RunsMachines):
        machines = [node.name for node in lab.topology.nodes]
    if machines:
        raise LabError(
            f"the servers of {', '.join(machines)} run in virtual machines",
            "servers in containers: options that need a restart can be set only there",
        )


def proofs(lab: Lab, wanted: Mapping[str, StartOptions]) -> list[Proof]:
    """Return whether each option is in force, as its server says it."""
    return [_proof(lab.node(node).server(), option) for node, options in wanted.items() for option in options.options]


def refuse_unproved(lab: Lab, wanted: Mapping[str, StartOptions]) -> None:
    """Raise LabError for the first option that is not in force."""
    for proof in proofs(lab, wanted):
        if not proof.ok:
            raise LabError(
                f"not in force: {proof.what}, found {proof.found}",
                "an option that is a variable of the server, with a value that the server keeps unchanged",
            )


def _proof(server: Server, option: Option) -> Proof:
    asked = f"{server.name} has {option.name}={option.value}{f' ({option.place})' if option.place else ''}"
    try:
        found = str(server.value(f"SELECT @@GLOBAL.{option.name}"))
    except LabError as error:
        if mysql_errors.is_lost(mysql_errors.code_of(error.__cause__)):
            raise
        return Proof(asked, f"the answer {error.__cause__}", ok=False, expected=option.value)
    return Proof(asked, found, ok=is_same(option.value, found), expected=option.value)


# --- restarted --------------------------------------------------------------------------------------------------------


def _text_of(lab: Lab, node: str) -> str:
    return lab.node(node).text_of(PATHS[-1])


def _turns(lab: Lab, nodes: Iterable[str]) -> list[list[str]]:
    """Return the nodes in the groups in which they are restarted."""
    names = list(nodes)
    if replication.of(lab).restarts_in_turn:
        return [[name] for name in names]
    return [names] if names else []


def _restart(lab: Lab, texts: Mapping[str, str]) -> None:
    """Restart nodes at the same time, each with its file; wait until all nodes replicate again."""
    at_once.of_each(lambda name: _start_again(lab, name, texts[name]), texts)
    lab.refresh()
    clock.wait_until(lambda: _are_up(lab, texts), f"the servers of {', '.join(texts)} to start", START_SECONDS)
    lab.refresh()
    replication.of(lab).wait_until_together()


def _start_again(lab: Lab, name: str, text: str) -> None:
    node = lab.node(name)
    if node.state()[0] == "running":
        node.stop()
    for path in PATHS:
        node.put(path, text.encode())
    node.start_again()


def _are_up(lab: Lab, names: Iterable[str]) -> bool:
    """Return whether all are healthy; LabError with a server's own words once one has ended."""
    for name in names:
        node = lab.node(name)
        if node.state()[0] in ("exited", "dead"):
            raise LabError(
                "\n  ".join([f"{name} did not start with these options:", *last_errors(node.logs_since_start())]),
                "options that the server starts with",
            )
    return all(lab.node(name).is_healthy() for name in names)
