"""Start nodes with further options: put an option file into each node's container, and restart the node."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.variable import is_same
from replication_lab.model.lab import mysql_errors
from replication_lab.model.lab.option_file import Option, StartOptions, causes, options_of, suspected, unknown_in
from replication_lab.model.lab.server_version import parse_version
from replication_lab.model.lab.storage import Storage
from replication_lab.model.lab.topology import Topology
from replication_lab.world import at_once, clock, lab_files, requests_made
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.server import Server
from replication_lab.world.mysql.variables import why_unknown

# Percona's image reads the first one, all others the second; both are read after every file of the lab.
PATHS = ("/etc/my.cnf.d/zz-user.cnf", "/etc/mysql/conf.d/zz-user.cnf")
START_SECONDS, ANSWER_SECONDS = 120, 30


def is_fixed(lab: Lab, node: str, name: str) -> bool:
    """Return whether a variable needs a restart: the server refuses any change, or a file sets it by now.

    Nothing is changed.
    """
    if name in replication.of(lab).restarts_whole:
        return True
    text = text_of(lab, node)
    if text and name in {option.name for option in options_of(GivenFile("", text))}:
        return True
    try:
        # A server checks the variable first; then it refuses this value for any variable.
        lab.node(node).server().execute(f"SET GLOBAL {name} = -(no_such_column)")
    except LabError as error:
        return mysql_errors.code_of(error.__cause__) == mysql_errors.READ_ONLY_VARIABLE
    return False


def needs_restart(error: LabError) -> bool:
    """Return whether a server refused a value because the variable cannot be changed while it runs."""
    return mysql_errors.code_of(error.__cause__) in (mysql_errors.READ_ONLY_VARIABLE, mysql_errors.WRONG_ARGUMENTS)


def run_with(lab: Lab, wanted: Mapping[str, StartOptions]) -> None:
    """Make each node run with these options; restart only nodes that run with others.

    Raise LabError, with every node as it was, for an option that a server does not start with, ignores or changes.
    """
    for options in wanted.values():
        options.refuse_reserved()
    before = {node: text_of(lab, node) for node in wanted}
    changed = {node: options for node, options in wanted.items() if options.text != before[node]}
    if not changed:
        return
    refuse_unable(lab.topology, {node: each.storage for node, each in array.arrays(lab).items()})
    try:
        start_with(lab, changed)
    except LabError:
        undone = {node: before[node] for node in changed if before[node] != text_of(lab, node)}
        for names in _turns(lab, undone):
            _restart(lab, {name: before[name] for name in names})
        raise


def on_every_node(lab: Lab, file: GivenFile) -> dict[str, StartOptions]:
    """Return the options of one file for each node of a lab."""
    return {node.name: StartOptions(file) for node in lab.topology.nodes}


def start_with(lab: Lab, wanted: Mapping[str, StartOptions]) -> None:
    """Restart nodes with these options; LabError for one that a server does not start with, ignores or changes."""
    for names in _turns(lab, {name: options.text for name, options in wanted.items()}):
        _restart(lab, {name: wanted[name].text for name in names}, {name: wanted[name].options() for name in names})
        refuse_unproved(lab, {name: wanted[name] for name in names})


def refuse_unable(topology: Topology, storage: Mapping[str, Storage]) -> None:
    """Raise LabError for a lab whose servers run in virtual machines, where a restart is one of the machine."""
    machines = [node for node, each in storage.items() if each.backend == overlay.MACHINE]
    if replication.kind_of(topology).in_machines:
        machines = [node.name for node in topology.nodes]
    if machines:
        raise LabError(
            f"the servers of {', '.join(machines)} run in virtual machines",
            "servers in containers: options that need a restart can be set only there",
        )


def proofs(lab: Lab, wanted: Mapping[str, StartOptions]) -> list[Proof]:
    """Return a proof for each option that it is in force, by its server's answer."""
    return [
        _proof(lab.node(node).server(), option)
        for node, options in options_in(lab, wanted).items()
        for option in options
    ]


def options_in(lab: Lab, wanted: Mapping[str, StartOptions]) -> dict[str, list[Option]]:
    """Return the options that each node's running server reads, by its version."""
    return {node: each.options(parse_version(lab.node(node).server().version())) for node, each in wanted.items()}


def current(lab: Lab) -> list[Proof]:
    """Return a proof for each option that a lab was started with; it fails if a server does not answer."""
    state = lab_files.saved_state(lab.name)
    found = []
    for node, options in state.options.items() if state else ():
        for option in options:
            try:
                found.append(_proof(lab.node(node).server(), option))
            except LabError:
                found.append(Proof(_asked(node, option), "does not answer", ok=False, expected=option.value))
    return found


def refuse_unproved(lab: Lab, wanted: Mapping[str, StartOptions]) -> None:
    """Raise LabError for the first option that is not in force; witnesses expect the others from now on."""
    for node, options in options_in(lab, wanted).items():
        server = lab.node(node).server()
        for option in options:
            proof = _proof(server, option)
            if not proof.ok:
                raise LabError(
                    f"an option is not in force: {proof.what}, found {proof.found}",
                    "an option that is a variable of the server, with a value that the server keeps unchanged",
                )
            requests_made.note_setting(server.address, option.name, option.value)


def _proof(server: Server, option: Option) -> Proof:
    asked = _asked(server.name, option)
    try:
        found = str(server.value(f"SELECT @@GLOBAL.{option.name}"))
    except LabError as error:
        if mysql_errors.is_lost(mysql_errors.code_of(error.__cause__)):
            raise
        return Proof(asked, f"error {error.__cause__}", ok=False, expected=option.value)
    return Proof(asked, found, ok=is_same(option.value, found), expected=option.value)


def _asked(node: str, option: Option) -> str:
    return f"{node} has {option.name}={option.value}{f' ({option.place})' if option.place else ''}"


# --- restarted --------------------------------------------------------------------------------------------------------


def text_of(lab: Lab, node: str) -> str:
    """Return the file that a node is started with besides those of the lab; empty if there is none."""
    return lab.node(node).text_of(PATHS[-1])


def _turns(lab: Lab, texts: Mapping[str, str]) -> list[list[str]]:
    """Return the nodes in the groups in which they are restarted; `texts` are their new files."""
    kind, both = replication.of(lab), [*texts.values(), *(text_of(lab, node) for node in texts)]
    named = {option.name for text in filter(None, both) for option in options_of(GivenFile("", text))}
    if kind.restarts_in_turn and not named & kind.restarts_whole:
        return [[name] for name in texts]
    return [list(texts)] if texts else []


def _restart(lab: Lab, texts: Mapping[str, str], options: Mapping[str, Sequence[Option]] | None = None) -> None:
    """Restart nodes at the same time, each with its file; wait until all nodes replicate again.

    `options` are those in the files, for the message about a server that does not start.
    """
    at_once.of_each(lambda name: _stop(lab, name), texts)
    at_once.of_each(lambda name: _start_again(lab, name, texts[name]), texts)
    lab.refresh()
    clock.wait_until(
        lambda: _are_up(lab, texts, options or {}), f"the servers of {', '.join(texts)} to start", START_SECONDS
    )
    lab.refresh()
    replication.of(lab).wait_until_together()


def _stop(lab: Lab, name: str) -> None:
    node = lab.node(name)
    if node.state()[0] == "running":
        # A server that is still starting ignores SIGTERM, and Docker would kill it after half a minute.
        with suppress(LabError):
            clock.wait_until(node.answers, f"the server of {name} to answer", ANSWER_SECONDS)
        node.stop()


def _start_again(lab: Lab, name: str, text: str) -> None:
    node = lab.node(name)
    for path in PATHS:
        node.put(path, text.encode())
    node.start_again()


def _are_up(lab: Lab, names: Iterable[str], options: Mapping[str, Sequence[Option]]) -> bool:
    """Return whether all are healthy; LabError with a server's errors as soon as one has ended."""
    for name in names:
        node = lab.node(name)
        if node.state()[0] in ("exited", "dead"):
            errors = causes(node.logs_since_start())
            about = [
                f"this is about {each.name} = {each.value}{f' ({each.place})' if each.place else ''}"
                for each in suspected(errors, options.get(name, ()))
            ]
            errors += [f"{each}{why}" for each in unknown_in(errors) if (why := why_unknown(each, node.dialect.family))]
            raise LabError(
                "\n  ".join([f"{name} did not start with these options:", *errors, *about]),
                "options that the server starts with",
            )
    return all(lab.node(name).is_healthy() for name in names)
