"""What a node is started with: the user's my.cnf file, and variables that need a restart."""

from collections.abc import Mapping
from dataclasses import dataclass

from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import Option, flat_text, options_of
from replication_lab.model.lab.reserved_options import refuse_reserved
from replication_lab.model.lab.server_version import Version


@dataclass(frozen=True)
class StartOptions:
    """The options that a node is started with: the user's file, and variables that cannot be changed at run time."""

    file: GivenFile | None = None
    variables: Mapping[str, str] | None = None

    def options(self, version: Version | None = None) -> list[Option]:
        """Return all options of a server of this version, each of which can be read from it."""
        given = options_of(self.file, version) if self.file else []
        return [*given, *(Option(name, value) for name, value in sorted((self.variables or {}).items()))]

    def refuse_reserved(self) -> None:
        """Raise LabError for an option that the lab sets itself."""
        for option in self.options():
            refuse_reserved(option.name, option.place)

    @property
    def text(self) -> str:
        """Return the contents of the node's option file; empty if it needs no options besides the lab's."""
        lines = [f"{name} = {value}" for name, value in sorted((self.variables or {}).items())]
        own = "\n".join(["[mysqld]", *lines, ""]) if lines else ""
        given = flat_text(self.file).rstrip("\n") + "\n" if self.file else ""
        return given + own
