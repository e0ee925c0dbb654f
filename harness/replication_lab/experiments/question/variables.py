"""The settings of servers that a case of a user's question asks for: by SET GLOBAL, or by a file and a restart."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from replication_lab import replication
from replication_lab.experiments.question.topologies import nodes_with_servers
from replication_lab.lab import start_options
from replication_lab.model.core.errors import LabError, did_you_mean
from replication_lab.model.core.proof import Proof
from replication_lab.model.experiment.case import Case
from replication_lab.model.experiment.experiment import Arrange
from replication_lab.model.experiment.measuring import AlsoProves, Watch
from replication_lab.model.lab import mysql_errors
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.model.question.server_options import Key, ServerOptions
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import NotKept, Server
from replication_lab.world.mysql.variables import why_unknown


@dataclass(frozen=True)
class ServerSettings:
    """The options that servers run with; `restore` sets the variables that were changed at run time back."""

    lab: Lab
    options: Mapping[str, StartOptions]
    restore: ExitStack

    def proofs(self, nodes: Collection[str] | None = None) -> list[Proof]:
        """Return a proof for each option of these nodes, or of all nodes."""
        asked = {node: options for node, options in self.options.items() if nodes is None or node in nodes}
        return start_options.proofs(self.lab, asked)


@contextmanager
def server_settings(lab: Lab, asked: ServerOptions) -> Iterator[ServerSettings]:
    """Set variables within the block, and restore their previous values; a node's own value takes precedence.

    Variables that need a restart, and the options of files, stay until another case needs different ones.
    Raise LabError for a variable or option that a server does not know, or whose value it changes.
    """
    kept = put(lab, asked)
    with kept.restore:
        yield kept


def with_servers(arrange: Arrange[Lab]) -> Arrange[Lab]:
    """Return the arrangement of a case that also sets the options of its servers, and proves them over the load."""

    @contextmanager
    def arranged(lab: Lab, case: Case) -> Iterator[Watch]:
        asked, file = case.state.servers, case.lab.cnf if case.lab else None
        if file:
            asked = replace(asked, files={"": file, **asked.files})
        with server_settings(lab, asked) as kept, arrange(lab, case) as watch:
            yield AlsoProves(watch, kept.proofs)

    return arranged


def put(lab: Lab, asked: ServerOptions) -> ServerSettings:
    """Do the same without restoring anything, for a lab that is removed afterwards."""
    served = nodes_with_servers(lab.topology)
    wanted = asked.on(served)
    by_restart = {key for key in wanted.variables if start_options.is_fixed(lab, *key)}
    restore: ExitStack | None = None
    while restore is None:
        fixed = replace(wanted, variables={key: wanted.variables[key] for key in by_restart})
        start_options.run_with(lab, {node: fixed.at_start(node) for node in served})
        try:
            restore = _set_all(lab, {key: value for key, value in wanted.variables.items() if key not in by_restart})
        except _NeedsRestart as refused:
            by_restart.add(refused.key)
    return ServerSettings(lab, {node: wanted.at_start(node) for node in served}, restore)


class _NeedsRestart(Exception):
    """A server refuses this value of a variable while it runs; `key` is (node, variable)."""

    def __init__(self, key: Key):
        super().__init__(*key)
        self.key = key


def _set_all(lab: Lab, variables: Mapping[Key, str]) -> ExitStack:
    """Set variables one by one, and return what restores them; after an error restore those that were already set."""
    with ExitStack() as restore:
        for (node, name), value in variables.items():
            server = lab.node(node).server()
            before = _read(server, name)
            try:
                _set(lab, server, name, value)
            except NotKept:
                restore.callback(_set, lab, server, name, before)
                raise
            except LabError as error:
                if start_options.needs_restart(error):
                    raise _NeedsRestart((node, name)) from error
                raise
            restore.callback(_set, lab, server, name, before)
        return restore.pop_all()


def _read(server: Server, name: str) -> str:
    try:
        return str(server.value(f"SELECT @@GLOBAL.{name}"))
    except LabError as error:
        if mysql_errors.code_of(error.__cause__) == mysql_errors.UNKNOWN_VARIABLE:
            known = [str(row["Variable_name"]) for row in server.rows("SHOW GLOBAL VARIABLES")]
            raise LabError(
                f"{server.name} has no variable {name}"
                f"{why_unknown(name, server.dialect.family, known) or did_you_mean(name, known)}",
                f"a variable that {server.version()} lists in SHOW GLOBAL VARIABLES",
                "./lab ask --help",
            ) from error
        raise


def _set(lab: Lab, server: Server, name: str, value: str) -> None:
    """Set a variable; a replica's applier is stopped meanwhile: a server refuses to change some while it runs."""
    is_replica = replication.kind_of(lab.topology).follows_a_source and server.name != lab.topology.source.name
    if is_replica:
        Replica(server).stop()
    try:
        server.set_global(**{name: value})
    finally:
        if is_replica:
            Replica(server).start()
