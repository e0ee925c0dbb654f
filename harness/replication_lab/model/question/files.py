"""The setting cnf of a question: the my.cnf file that each node is started with."""

from collections.abc import Mapping, Sequence

from replication_lab.model.core.errors import LabError, unknown_name
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import options_of, refuse_both

CNF = "cnf"
# The value for a node without a file of the user.
NONE = "none"


def is_cnf(name: str) -> bool:
    """Return whether a setting is cnf or NODE.cnf."""
    return name.rpartition(".")[2] == CNF


def files_of(values: Mapping[str, str], files: Sequence[GivenFile]) -> dict[str, GivenFile | None]:
    """Return the file of each cnf setting; None for a node without a file."""
    by_name = {file.name: file for file in files}
    return {name: by_name.get(value) for name, value in values.items() if is_cnf(name)}


def refuse_bad_files(asked: Mapping[str, Sequence[str]], files: Sequence[GivenFile]) -> None:
    """Raise LabError for a file that servers cannot use, a missing file, and a file that no setting names."""
    names = [file.name for file in files]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise LabError(f"two files are called {twice}", "files with names that differ", "rename one of them")
    for file in files:
        options_of(file)
    used = {value for name, values in asked.items() if is_cnf(name) for value in values}
    for value in sorted(used - {NONE}):
        if value not in names:
            raise unknown_name("file of the setting cnf", value, [*names, NONE])
    if left := sorted(set(names) - used):
        raise LabError(
            f"no setting uses the file {left[0]}", f"a setting {CNF} that uses it, or a question without the file"
        )
    variables = [name for name in asked if not is_cnf(name)]
    for file in files:
        for name in asked:
            if is_cnf(name) and file.name in asked[name]:
                refuse_both(name, file, variables)
