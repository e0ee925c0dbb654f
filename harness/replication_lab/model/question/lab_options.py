"""The options that a lab's nodes are started with, as the user gives them: variables and files, for all or one node."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import StartOptions, refuse_both
from replication_lab.model.question.question import OWN, VALUE, VARIABLE

Given = TypeVar("Given")


def by_node(asked: Mapping[str, Given], nodes: Sequence[str]) -> dict[tuple[str, str], Given]:
    """Return the value for each (node, setting); a value for one node takes precedence over that for all nodes."""
    found: dict[tuple[str, str], Given] = {}
    for setting, value in sorted(asked.items(), key=lambda item: "." in item[0]):
        node, _, name = setting.rpartition(".")
        found |= {(each, name): value for each in nodes if node in ("", each)}
    return found


def options_by_node(
    variables: Mapping[str, str], files: Mapping[str, GivenFile], nodes: Sequence[str]
) -> dict[str, StartOptions]:
    """Return the options of each node that has any, from {[NODE.]NAME: VALUE} and {[NODE.]cnf: file}.

    Raise LabError for a bad name or value, an unknown node, and a variable that a file sets as well.
    """
    for setting in [*variables, *files]:
        node = setting.rpartition(".")[0]
        if node and node not in nodes:
            raise unknown_name("node", node, nodes)
    for setting, value in variables.items():
        if setting in OWN or not VARIABLE.fullmatch(setting) or not VALUE.fullmatch(value):
            raise LabError(
                f"--set {setting}={value} sets no variable of a server",
                "a variable or NODE.VARIABLE, and a number, ON, OFF or a word, without quotes and spaces",
                "--set sync_binlog=0",
            )
    for setting, file in files.items():
        refuse_both(setting, file, variables)
    values, file_of = by_node(variables, nodes), {node: file for (node, _), file in by_node(files, nodes).items()}
    wanted = {
        node: StartOptions(file_of.get(node), {name: value for (its, name), value in values.items() if its == node})
        for node in nodes
    }
    return {node: options for node, options in wanted.items() if options.text}
