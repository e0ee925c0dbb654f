"""The settings of servers that a case of a user's question asks for: by SET GLOBAL, or by a file and a restart."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from replication_lab.experiments.question.topologies import follows_a_source, nodes_with_servers
from replication_lab.lab import start_options
from replication_lab.model.core.errors import LabError, did_you_mean
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.proof import Proof
from replication_lab.model.core.variable import is_same, literal
from replication_lab.model.lab import mysql_errors
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.model.question.lab_options import by_node
from replication_lab.model.question.question import Values
from replication_lab.world.docker.lab import Lab
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import Server
from replication_lab.world.mysql.variables import why_unknown

# A node, and a variable of its server.
Key = tuple[str, str]


@dataclass(frozen=True)
class _Set:
    """A variable that was set on a server, and its previous value."""

    server: Server
    name: str
    value: str
    before: str

    def set(self, value: str) -> None:
        self.server.execute(f"SET GLOBAL {self.name} = {literal(value)}")

    def read(self) -> str:
        return str(self.server.value(f"SELECT @@GLOBAL.{self.name}"))

    def proof(self) -> Proof:
        found = self.read()
        return Proof(
            what=f"{self.server.name} has {self.name}={self.value}",
            expected=self.value,
            found=found,
            ok=is_same(self.value, found),
        )


@dataclass(frozen=True)
class ServerSettings:
    """The settings made on servers: variables set at run time, and options for their start."""

    lab: Lab
    set: list[_Set]
    started_with: Mapping[str, StartOptions]

    def proofs(self) -> list[Proof]:
        return [*(each.proof() for each in self.set), *start_options.proofs(self.lab, self.started_with)]

    def proofs_of(self, nodes: Collection[str]) -> list[Proof]:
        own = [each for each in self.set if each.server.name in nodes]
        started_with = {node: options for node, options in self.started_with.items() if node in nodes}
        return ServerSettings(self.lab, own, started_with).proofs()


@contextmanager
def server_settings(lab: Lab, asked: Values, files: Mapping[str, GivenFile | None]) -> Iterator[ServerSettings]:
    """Set variables within the block, and restore their previous values; a node's own value takes precedence.

    Variables that need a restart, and the options of files, stay until another case needs different ones.
    Raise LabError for a variable or option that a server does not know, or whose value it changes.
    """
    kept = put(lab, asked, files)
    try:
        yield kept
    finally:
        _set_back(lab, kept.set)


def put(lab: Lab, asked: Values, files: Mapping[str, GivenFile | None]) -> ServerSettings:
    """Do the same without restoring anything, for a lab that is removed afterwards."""
    served = nodes_with_servers(lab.topology)
    variables = by_node(asked, served)
    file_of = {node: file for (node, _), file in by_node(files, served).items()}
    by_restart = {(node, name) for node, name in variables if start_options.is_fixed(lab, node, name)}
    done: list[_Set] | None = None
    while done is None:
        started_with = {
            node: StartOptions(
                file_of.get(node), {name: variables[its, name] for its, name in by_restart if its == node}
            )
            for node in served
        }
        start_options.run_with(lab, started_with)
        try:
            done = _set_all(lab, {key: value for key, value in variables.items() if key not in by_restart})
        except _NeedsRestart as refused:
            by_restart.add(refused.key)
    return ServerSettings(lab, done, started_with)


class _NeedsRestart(Exception):
    """A server refuses this value of a variable while it runs; `key` is (node, variable)."""

    def __init__(self, key: Key):
        super().__init__(*key)
        self.key = key


def _set_all(lab: Lab, variables: Mapping[Key, str]) -> list[_Set]:
    """Set variables one by one; after an error restore those that were already set."""
    done: list[_Set] = []
    try:
        for key, value in variables.items():
            done.append(_set(lab, key, value))
    except BaseException:
        _set_back(lab, done)
        raise
    return done


def _set_back(lab: Lab, done: list[_Set]) -> None:
    for each in reversed(done):
        with _stopped_applier(lab, each.server):
            each.set(each.before)


def _set(lab: Lab, key: Key, value: str) -> _Set:
    node, name = key
    server = lab.node(node).server()
    one = _Set(server, name, value, before="")
    try:
        one = _Set(server, name, value, before=one.read())
    except LabError as error:
        if mysql_errors.code_of(error.__cause__) == mysql_errors.UNKNOWN_VARIABLE:
            raise _unknown(server, name) from error
        raise
    with _stopped_applier(lab, server):
        try:
            one.set(value)
        except LabError as error:
            if start_options.needs_restart(error):
                raise _NeedsRestart(key) from error
            raise
    if not one.proof().ok:
        found = one.read()
        one.set(one.before)
        raise LabError(f"{node} changed {name}={value} to {found}", "a value that the server keeps unchanged")
    return one


def _unknown(server: Server, name: str) -> LabError:
    known = [str(row["Variable_name"]) for row in server.rows("SHOW GLOBAL VARIABLES")]
    return LabError(
        f"{server.name} has no variable {name}"
        f"{why_unknown(name, server.dialect.family, known) or did_you_mean(name, known)}",
        f"a variable that {server.version()} lists in SHOW GLOBAL VARIABLES",
        "./lab ask --help",
    )


def _stopped_applier(lab: Lab, server: Server) -> AbstractContextManager[None]:
    """Stop a replica's applier within the block: a server refuses to change some of its settings while it runs."""
    return _stopped(server) if _is_replica(lab, server) else nullcontext()


def _is_replica(lab: Lab, server: Server) -> bool:
    return follows_a_source(lab.topology) and server.name != lab.topology.source.name


@contextmanager
def _stopped(server: Server) -> Iterator[None]:
    Replica(server).stop()
    try:
        yield
    finally:
        Replica(server).start()
