"""The options of servers as a user gives them, each for all nodes or for one, and the state that a case asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import StartOptions, refuse_both
from replication_lab.model.question.setting import VALUE, VARIABLE, setting

# A node, and a variable of its server.
Key = tuple[str, str]


@dataclass(frozen=True)
class ServerOptions:
    """Variables by node and name, and files by node, None for no file; an empty node stands for all nodes."""

    variables: Mapping[Key, str] = field(default_factory=dict)
    files: Mapping[str, GivenFile | None] = field(default_factory=dict)

    def on(self, nodes: Sequence[str]) -> "ServerOptions":
        """Return the options of each of these nodes; a node's own value takes precedence over that for all nodes."""
        variables, files = dict[Key, str](), dict[str, GivenFile | None]()
        for (node, name), value in sorted(self.variables.items(), key=lambda item: item[0][0] != ""):
            variables |= {(each, name): value for each in nodes if node in ("", each)}
        for node, file in sorted(self.files.items(), key=lambda item: item[0] != ""):
            files |= {each: file for each in nodes if node in ("", each)}
        return ServerOptions(variables, files)

    def at_start(self, node: str) -> StartOptions:
        """Return what a node is started with, if all of its options are given at its start."""
        own = {name: value for (its, name), value in self.variables.items() if its == node}
        return StartOptions(self.files.get(node), own)


def server_options(values: Mapping[str, str], files: Sequence[GivenFile]) -> ServerOptions:
    """Return the options of servers among a case's settings; `files` are those that the setting cnf names."""
    by_name = {file.name: file for file in files}
    settings = [setting(name) for name in values]
    return ServerOptions(
        {(each.node, each.what): values[each.name] for each in settings if each.is_variable},
        {each.node: by_name.get(values[each.name]) for each in settings if each.is_file},
    )


def options_by_node(
    variables: Mapping[str, str], files: Mapping[str, GivenFile], nodes: Sequence[str]
) -> dict[str, StartOptions]:
    """Return the options of each node that has any, from {[NODE.]NAME: VALUE} and {[NODE.]cnf: file}.

    Raise LabError for a bad name or value, an unknown node, and a variable that a file sets as well.
    """
    for each in map(setting, [*variables, *files]):
        if each.node and each.node not in nodes:
            raise unknown_name("node", each.node, nodes)
    for name, value in variables.items():
        if setting(name).is_of_case or not VARIABLE.fullmatch(name) or not VALUE.fullmatch(value):
            raise LabError(
                f"--set {name}={value} sets no variable of a server",
                "a variable or NODE.VARIABLE, and a number, ON, OFF or a word, without quotes and spaces",
                "--set sync_binlog=0",
            )
    for name, file in files.items():
        refuse_both(name, file, variables)
    asked = ServerOptions(
        {(each.node, each.what): variables[each.name] for each in map(setting, variables)},
        {each.node: files[each.name] for each in map(setting, files)},
    ).on(nodes)
    return {node: options for node in nodes if (options := asked.at_start(node)).text}


@dataclass(frozen=True)
class CaseState:
    """What a case sets on its lab and asks of its clients, besides the toxics of its links.

    An empty `replication` is that of the topology. `wait_point` (of semi-sync) and `protocol` (of DRBD) are None where
    the servers' own are to stay. `rate` is in transactions a second, None for as many as possible.
    """

    replication: str = ""
    clients: int = 1
    wait_point: str | None = None
    protocol: str | None = None
    rate: float | None = None
    servers: ServerOptions = field(default_factory=ServerOptions)
