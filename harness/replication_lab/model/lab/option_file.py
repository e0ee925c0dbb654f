"""The user's my.cnf file: its options with their lines, and the options that only the lab may set."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile

GROUPS = ("mysqld", "mariadb", "mariadbd", "server")
# Stands for a group that a server does not read.
OF_OTHERS = "others"
OPTION = re.compile(r"(?P<name>[A-Za-z][\w-]*)\s*(?:=\s*(?P<value>.*))?")
COMMENT = re.compile(r"""((?:[^#'"]|'[^']*'|"[^"]*")*)#.*""")
QUOTED = re.compile(r"""(['"])(.*)\1""")
# A server ignores an option with this prefix if it does not know it.
LOOSE = "loose_"

UNKNOWN = re.compile(r"unknown (?:variable|option) '(?:--)?([\w-]+)")

# Options by pattern, and why a file may not set them. The Compose files, compose/engines and the images set them, so
# that a node is reachable, replicates and can be compared.
RESERVED: dict[str, str] = {
    "server_id": "the lab gives each node its own number, and derives its link's port from it",
    "report_*": "the other nodes find the node by it",
    "datadir": "it would move the node's data out of its volume",
    "basedir": "the image has its server at a fixed path",
    "plugin_dir": "the image has its plugins at a fixed path",
    "plugin_load*": "the lab loads the plugins of semi-sync and of the group by it",
    "innodb_data_home_dir": "it would move the node's data out of its volume",
    "innodb_data_file_path": "it would not match the data files that the node has already",
    "innodb_log_group_home_dir": "it would move the node's redo log out of its volume",
    "innodb_undo_directory": "it would move the node's undo logs out of its volume",
    "innodb_force_recovery": "it can damage the data",
    "innodb_read_only": "the node could not apply replicated changes",
    "port": "clients and links connect to port 3306",
    "extra_port": "the lab publishes only one port of each node",
    "bind_address": "clients and links connect from other containers",
    "socket": "the image's scripts connect through the socket at its default path",
    "pid_file": "the image's scripts expect the file at its default path",
    "skip_networking": "clients and links connect from other containers",
    "skip_grant_tables": "it would disable the accounts that the lab connects with",
    "require_secure_transport": "the lab's clients connect without TLS",
    "user": "the container already runs the server as the right user",
    "chroot": "the server already has a root directory of its own, in its container",
    "daemonize": "a server in the background would end its container",
    "init_file": "the lab needs it for the first start of a node",
    "log_error": "the lab reads the server's messages from the container's log",
    "offline_mode": "clients could not connect",
    "log_bin*": "the lab compares replicas by their position in the binary log",
    "skip_log_bin": "replicas read the binary log of their source",
    "disable_log_bin": "replicas read the binary log of their source",
    "log_slave_updates": "after a failover, the other replicas read the promoted replica's binary log",
    "log_replica_updates": "after a failover, the other replicas read the promoted replica's binary log",
    "relay_log": "with another name, the replica would lose the relay log that it continues with",
    "relay_log_index": "with another name, the replica would lose the relay log that it continues with",
    "relay_log_info_file": "with another name, the replica would lose its recorded position",
    "master_info_file": "with another name, the replica would lose its recorded position",
    "gtid_mode": "the lab's replicas find their position by GTID",
    "gtid_domain_id": "the lab's replicas find their position by GTID",
    "gtid_strict_mode": "the lab's replicas find their position by GTID",
    "enforce_gtid_consistency": "the lab's replicas find their position by GTID",
    "skip_slave_start": "after a restart, the replica would not replicate",
    "skip_replica_start": "after a restart, the replica would not replicate",
    "read_only": "the node's role determines it",
    "super_read_only": "the node's role determines it",
    "replicate_*": "it would leave out changes, and the copies would differ",
    "binlog_do_db": "it would leave out changes, and the copies would differ",
    "binlog_ignore_db": "it would leave out changes, and the copies would differ",
    "rpl_semi_sync_*_enabled": "the topology and the setting replication determine it",
    "rpl_semi_sync_*_timeout": "the setting replication determines it",
    "rpl_semi_sync_*_wait_point": "use the lab's setting wait_point instead",
    "group_replication_group_name": "all nodes of a group need the same name, which the lab sets",
    "group_replication_group_seeds": "the nodes of the group find each other by it",
    "group_replication_local_address": "the nodes of the group find each other by it",
    "group_replication_bootstrap_group": "when they start, the nodes agree which of them bootstraps",
    "group_replication_start_on_boot": "when they start, the nodes agree which of them bootstraps",
    "group_replication_single_primary_mode": "the lab's groups have a single primary",
    "group_replication_recovery_get_public_key": "a node needs it to log in to its donor when it joins",
    "wsrep_on": "every node of the topology has to be in the cluster",
    "wsrep_provider": "the image has the Galera library at a fixed path",
    "wsrep_provider_options": "the lab sets it on the command line, which overrides a file",
    "wsrep_cluster_*": "when they start, the nodes agree which of them bootstraps",
    "wsrep_node_*": "the other nodes find the node by it",
    "wsrep_sst_*": "LAB_SST selects the method of state snapshot transfers (SST)",
    "wsrep_start_position": "the node has to continue from its recorded position",
}
# What can be set in place of a reserved option.
IN_PLACE = {
    "wsrep_provider_options": "an option of the library by itself: wsrep_provider_gcs_fc_limit=16 for gcs.fc_limit=16",
}


@dataclass(frozen=True)
class Option:
    """An option that a server is started with; `place` is where a file has it, such as "a.cnf line 3"."""

    name: str
    value: str
    place: str = ""


def options_of(file: GivenFile) -> list[Option]:
    """Return the options of a file. Raise LabError with all lines that a server of the lab must not get."""
    found: dict[str, Option] = {}
    refused: list[LabError] = []
    group = ""
    for number, line in enumerate(map(str.strip, file.text.splitlines()), 1):
        place = f"{file.name} line {number}"
        if not line or line[0] in "#;":
            continue
        if line[0] in "[!":
            try:
                group = _group(line, place)
            except LabError as error:
                refused.append(error)
                group = group if line[0] == "!" else OF_OTHERS
            continue
        if group == OF_OTHERS:
            continue
        if not group:
            raise LabError(f"{place}: {line!r} is in no group", "a line [mysqld] before it")
        option = _option(line, place)
        try:
            refuse_reserved(option)
        except LabError as error:
            refused.append(error)
        if twice := found.get(option.name):
            raise LabError(f"{place}: {option.name} is in {twice.place} already", "each option once")
        found[option.name] = option
    if refused:
        raise refused[0] if len(refused) == 1 else _refused(file, refused)
    if not found:
        raise LabError(f"{file.name} has no option", "[mysqld], and lines such as innodb_flush_method = O_DIRECT")
    return list(found.values())


def _refused(file: GivenFile, refused: Sequence[LabError]) -> LabError:
    said = "\n  ".join(error.found for error in refused)
    return LabError(
        f"{file.name} has {len(refused)} lines that are not for the lab's servers:\n  {said}",
        "options of a server that the lab does not set itself",
        "remove these lines from a copy of the file, and a group with all its lines",
    )


def _group(line: str, place: str) -> str:
    expected = f"one of the groups {', '.join(f'[{name}]' for name in GROUPS)}"
    name = line[1:].partition("]")[0].strip()
    if line.startswith("[") and "]" in line and name in GROUPS:
        return name
    raise LabError(
        f"{place}: {line!r} is not for the server",
        expected,
        "remove it, and the lines below it, from a copy of the file",
    )


def _option(line: str, place: str) -> Option:
    if commented := COMMENT.fullmatch(line):
        line = commented[1].strip()
    found = OPTION.fullmatch(line)
    if not found:
        raise LabError(f"{place}: {line!r} is not an option", "NAME = VALUE, or NAME alone for a switch that is on")
    value = "ON" if found["value"] is None else found["value"].strip()
    if "\\" in value:
        raise LabError(
            f"{place}: {line!r} has a backslash, so its value could not be compared with the server's",
            "a value without a backslash",
        )
    if quoted := QUOTED.fullmatch(value):
        value = quoted[2]
    return Option(found["name"].replace("-", "_").lower().removeprefix(LOOSE), value, place)


def refuse_reserved(option: Option) -> None:
    """Raise LabError for an option that the lab sets itself."""
    if reason := next((why for pattern, why in RESERVED.items() if fnmatchcase(option.name, pattern)), ""):
        place = f"{option.place}: " if option.place else ""
        next_ = "remove it from a copy of the file" if place else ""
        raise LabError(
            f"{place}{option.name} cannot be set: {reason}", IN_PLACE.get(option.name, "other options"), next_
        )


def refuse_both(setting: str, file: GivenFile, variables: Iterable[str]) -> None:
    """Raise LabError for a variable that a file of the same node sets as well; both settings may begin with "NODE."."""
    node = setting.rpartition(".")[0]
    options = {option.name: option for option in options_of(file)}
    for variable in variables:
        its_node, _, name = variable.rpartition(".")
        if name in options and (not node or not its_node or node == its_node):
            raise LabError(
                f"{variable} is set by an option and by {options[name].place}",
                "one of the two",
                f"leave {name} out of {file.name}",
            )


@dataclass(frozen=True)
class StartOptions:
    """The options that a node is started with: the user's file, and variables that cannot be changed at run time."""

    file: GivenFile | None = None
    variables: Mapping[str, str] | None = None

    @property
    def options(self) -> list[Option]:
        """Return all options, each of which can be read from the server."""
        given = options_of(self.file) if self.file else []
        return [*given, *(Option(name, value) for name, value in sorted((self.variables or {}).items()))]

    def refuse_reserved(self) -> None:
        """Raise LabError for an option that the lab sets itself."""
        for option in self.options:
            refuse_reserved(option)

    @property
    def text(self) -> str:
        """Return the contents of the node's option file; empty if it needs no options besides the lab's."""
        lines = [f"{name} = {value}" for name, value in sorted((self.variables or {}).items())]
        own = "\n".join(["[mysqld]", *lines, ""]) if lines else ""
        given = self.file.text.rstrip("\n") + "\n" if self.file else ""
        return given + own


def unknown_in(errors: Iterable[str]) -> list[str]:
    """Return the variables that a server did not know, by the errors in its log."""
    return [name.replace("-", "_").lower() for error in errors for name in UNKNOWN.findall(error)]


def last_errors(log: str, most: int = 3) -> list[str]:
    """Return the last errors of a server's log; its last line if it names none.

    Galera's errors (WSREP) are left out if there are others: its library logs some after the error that ended the
    server.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.partition("[ERROR] ")[2] for line in lines if "[ERROR] " in line and "Aborting" not in line]
    causes = [error for error in errors if not error.startswith("WSREP:")]
    return causes[-most:] or errors[-most:] or lines[-1:]
