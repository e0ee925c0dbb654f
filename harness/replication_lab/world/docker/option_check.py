"""What a server's own program says of options, asked in a container before any server of a lab starts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from replication_lab.model.core.errors import LabError, did_you_mean
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import Option, named_in, options_of
from replication_lab.model.lab.server_version import Version, parse_version
from replication_lab.model.lab.topology import Topology
from replication_lab.world.docker import images, servers
from replication_lab.world.mysql.variables import is_variable, why_unknown

# A server that was not installed where it was built for finds its messages by this option only, and ends without them.
PROGRAM = (
    "server=$(command -v mariadbd || command -v mysqld);"
    ' base="--basedir=$(dirname "$(dirname "$(readlink -f "$server")")")"'
)
# The variables of a program, with their values, come after this line of its help.
TABLE = "Variables (--variable-name=value)"
KNOWN = f"{PROGRAM}; $server --version; $server --no-defaults $base --verbose --help 2>/dev/null"
WITH_FILE = (
    f'{PROGRAM}; printf %s "$LAB_OPTIONS" >/tmp/lab.cnf; $server --defaults-file=/tmp/lab.cnf $base --user=mysql'
)
# Only some versions have a check of its own; the help of the others reads the options as a start does.
CHECK, HELP = "--log-error-verbosity=2 --validate-config 2>&1", "--verbose --help 2>&1 >/dev/null"
HAVE_CHECK = Version("mysql", (8, 0))
# What comes before a message: time, level, number, subsystem, program.
PREFIX = re.compile(r".*\] (?:Buffered error: )?(?:\S*/(?:mysqld|mariadbd): )?")
# Variables of plugins, which the program does not load for these questions.
OF_PLUGINS = ("group_replication_", "rpl_semi_sync_", "wsrep_provider_", "clone_", "validate_password")


@dataclass(frozen=True)
class Program:
    """A server program in an image: its version, and the options that it knows by their names in lower case.

    Some have capitals in the program's own spelling, which it insists on.
    """

    version: Version
    options: Mapping[str, str]


@cache
def program(image: str) -> Program:
    """Return what the server program in an image says of itself; LabError if it cannot be asked."""
    _, said = images.said_by(image, KNOWN)
    table = said.partition(TABLE)[2].splitlines()
    # Two more lines belong to the table's head.
    names = (line.split()[0].replace("-", "_") for line in table[2:] if line[:1].isalpha() and "-" * 9 not in line)
    return Program(parse_version(said), {name.lower(): name for name in names})


@cache
def complaints(image: str, file: GivenFile) -> dict[Option, str]:
    """Return the options of a file that a server does not take, ignores or changes, with its program's words.

    The program ends at its first error. So what it named is left out, and it is asked again until it names nothing.
    """
    asked = program(image)
    found: dict[Option, str] = {}
    left = [option for option in options_of(file, asked.version) if not option.name.startswith(OF_PLUGINS)]
    takes_prefixes = asked.version.family == "mariadb" or asked.version.numbers < (5, 7)
    for option in left if asked.options else []:
        begun = [name for name in asked.options if name.startswith(option.name)]
        if option.name not in asked.options and len(begun) == 1 and takes_prefixes:
            found[option] = f"it is the beginning of {begun[0]}, whose whole name the lab needs to read it back"
        elif option.name not in asked.options:
            why = why_unknown(option.name, asked.version.family) or did_you_mean(option.name, asked.options)
            found[option] = f"{asked.version} has no such option{why}"
        elif not is_variable(option.name, asked.version):
            found[option] = "it is not a variable, so the lab could not see whether it is in force"
    has_check = asked.version.family == HAVE_CHECK.family and asked.version.numbers >= HAVE_CHECK.numbers
    while left := [option for option in left if option not in found]:
        text = "".join(f"{line}\n" for line in ["[mysqld]", *(_line(asked, option) for option in left)])
        script = f"{WITH_FILE} {CHECK if has_check else HELP}"
        _, said = images.said_by(image, script, environment={"LAB_OPTIONS": text})
        # The first words about an option are those of its error.
        named = {option: line for line in reversed(_about_values(said)) for option in named_in(line, left)}
        if not named:
            break
        found |= named
    return found


def _about_values(said: str) -> list[str]:
    """Return the errors in what a program printed, and its warnings about values that it changes."""
    lines = said.splitlines()
    errors = [line for line in lines if "[ERROR] " in line] + [line for line in lines if " adjusted to " in line]
    return [PREFIX.sub("", line) for line in errors]


def _line(asked: Program, option: Option) -> str:
    value = option.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{asked.options.get(option.name, option.name)} = "{value}"'


def check(topology: Topology, engine: str, files: Mapping[str, GivenFile | None]) -> None:
    """Raise LabError with all options of these files, by node, that a server does not take, ignores or changes."""
    texts = servers.of_nodes(topology, engine)
    asked: dict[tuple[str, GivenFile], list[str]] = {}
    for node, file in files.items():
        if file:
            asked.setdefault((servers.image_of(texts[node]), file), []).append(node)
    said = [
        f"{option.place}: {option.name} = {option.value}: {why} ({', '.join(nodes)})"
        for (image, file), nodes in asked.items()
        for option, why in complaints(image, file).items()
    ]
    if said:
        raise LabError(
            "\n  ".join(["the servers do not take these options:", *said]) if len(said) > 1 else said[0],
            "options that the servers know, with values that they keep unchanged",
            "correct or remove them in a copy of the file",
        )
