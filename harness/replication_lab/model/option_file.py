"""The user's my.cnf file: its options with their lines, and the options that only the lab may set."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from replication_lab.model.errors import LabError
from replication_lab.model.given_file import GivenFile

GROUPS = ("mysqld", "mariadb", "mariadbd", "server")
OPTION = re.compile(r"(?P<name>[A-Za-z][\w-]*)\s*(?:=\s*(?P<value>.*))?")
COMMENT = re.compile(r"""((?:[^#'"]|'[^']*'|"[^"]*")*)#.*""")
QUOTED = re.compile(r"""(['"])(.*)\1""")
# A server ignores an option with this prefix if it does not know it.
LOOSE = "loose_"

# Options by pattern, and why a file may not set them. The Compose files, compose/engines and the images set them, so
# that a node is reachable, replicates and can be compared.
RESERVED: dict[str, str] = {
    "server_id": "each node has its own number, and its link's port follows from it",
    "report_*": "peers find a node by it",
    "datadir": "the node's volume is there",
    "basedir": "the image's server is there",
    "plugin_dir": "the image's plugins are there",
    "plugin_load*": "the plugins of semi-sync and of the group are loaded by it",
    "innodb_data_home_dir": "the node's data are in its volume",
    "innodb_data_file_path": "the node's data files exist already",
    "innodb_log_group_home_dir": "the node's redo log is in its volume",
    "innodb_undo_directory": "the node's undo logs are in its volume",
    "innodb_force_recovery": "it damages the data",
    "innodb_read_only": "the node could not replicate",
    "port": "clients and links reach the server by it",
    "extra_port": "the node has one published port",
    "bind_address": "clients and links reach the server from other containers",
    "socket": "the image's scripts reach the server by it",
    "pid_file": "the image's scripts expect it",
    "skip_networking": "clients and links reach the server from other containers",
    "skip_grant_tables": "the lab's accounts have passwords",
    "require_secure_transport": "the lab's clients connect without TLS",
    "user": "the container has the right user already",
    "chroot": "the server has a root directory of its own already: the container's",
    "daemonize": "the container ends with its first process",
    "init_file": "the first start of a node uses its own init file",
    "log_error": "the lab reads the server's messages from its container's log",
    "offline_mode": "clients could not connect",
    "log_bin*": "replicas are compared by their position in the binary log",
    "skip_log_bin": "replicas are fed from the binary log",
    "disable_log_bin": "replicas are fed from the binary log",
    "log_slave_updates": "a failover needs the replicas' own binary logs",
    "log_replica_updates": "a failover needs the replicas' own binary logs",
    "relay_log": "the replica continues with its relay log",
    "relay_log_index": "the replica continues with its relay log",
    "relay_log_info_file": "the replica continues from its recorded position",
    "master_info_file": "the replica continues from its recorded position",
    "gtid_mode": "replicas find their position by GTID",
    "gtid_domain_id": "replicas find their position by GTID",
    "gtid_strict_mode": "replicas find their position by GTID",
    "enforce_gtid_consistency": "replicas find their position by GTID",
    "skip_slave_start": "a replica has to replicate again after a restart",
    "skip_replica_start": "a replica has to replicate again after a restart",
    "read_only": "the lab sets it by the node's role",
    "super_read_only": "the lab sets it by the node's role",
    "replicate_*": "the copies could not be equal",
    "binlog_do_db": "the copies could not be equal",
    "binlog_ignore_db": "the copies could not be equal",
    "rpl_semi_sync_*_enabled": "the lab sets it by the topology and the setting replication",
    "rpl_semi_sync_*_timeout": "the lab sets it by the setting replication",
    "rpl_semi_sync_*_wait_point": "use the lab's setting wait_point in its place",
    "group_replication_group_name": "the nodes agree on a name when they start",
    "group_replication_group_seeds": "peers find each other by it",
    "group_replication_local_address": "peers find each other by it",
    "group_replication_bootstrap_group": "the nodes decide at their start which of them bootstraps",
    "group_replication_start_on_boot": "the nodes decide at their start which of them bootstraps",
    "group_replication_single_primary_mode": "the lab's group has one primary",
    "group_replication_recovery_get_public_key": "a node that joins needs it",
    "wsrep_on": "every node of the topology is a member of the cluster",
    "wsrep_provider": "the image's library is there",
    "wsrep_provider_options": "the lab gives them on the command line, which overrides a file",
    "wsrep_cluster_*": "the nodes decide at their start which of them bootstraps",
    "wsrep_node_*": "peers find a node by it",
    "wsrep_sst_*": "LAB_SST sets the method of full state transfers",
    "wsrep_start_position": "the node continues from its recorded position",
}


@dataclass(frozen=True)
class Option:
    """An option that a server is started with; `place` is where a file has it, such as "a.cnf line 3"."""

    name: str
    value: str
    place: str = ""


def options_of(file: GivenFile) -> list[Option]:
    """Return the options of a file. Raise LabError, with file and line, for an option that a server must not get."""
    found: dict[str, Option] = {}
    group = ""
    for number, line in enumerate(map(str.strip, file.text.splitlines()), 1):
        place = f"{file.name} line {number}"
        if not line or line[0] in "#;":
            continue
        if line[0] in "[!":
            group = _group(line, place)
            continue
        if not group:
            raise LabError(f"{place}: {line!r} is in no group", "a line [mysqld] before it")
        option = _option(line, place)
        if twice := found.get(option.name):
            raise LabError(f"{place}: {option.name} is in {twice.place} already", "each option once")
        found[option.name] = option
    if not found:
        raise LabError(f"{file.name} has no option", "[mysqld], and lines such as innodb_flush_method = O_DIRECT")
    return list(found.values())


def _group(line: str, place: str) -> str:
    expected = f"one of the groups {', '.join(f'[{name}]' for name in GROUPS)}"
    name = line[1:].partition("]")[0].strip()
    if line.startswith("[") and "]" in line and name in GROUPS:
        return name
    raise LabError(f"{place}: {line!r} is not for the server", expected, "put it into another file")


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
    option = Option(found["name"].replace("-", "_").lower().removeprefix(LOOSE), value, place)
    refuse_reserved(option)
    return option


def refuse_reserved(option: Option) -> None:
    """Raise LabError for an option that the lab sets itself."""
    if reason := next((why for pattern, why in RESERVED.items() if fnmatchcase(option.name, pattern)), ""):
        place = f"{option.place}: " if option.place else ""
        raise LabError(f"{place}{option.name} cannot be set: {reason}", "other options")


def refuse_both(setting: str, file: GivenFile, variables: Iterable[str]) -> None:
    """Raise LabError for a variable that a file of the same node sets as well; both settings may begin with "NODE."."""
    node = setting.rpartition(".")[0]
    options = {option.name: option for option in options_of(file)}
    for variable in variables:
        its_node, _, name = variable.rpartition(".")
        if name in options and (not node or not its_node or node == its_node):
            raise LabError(
                f"{variable} is set, and {options[name].place} sets it, too",
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


def last_errors(log: str, most: int = 3) -> list[str]:
    """Return the last errors of a server's log; its last line if it names none.

    Galera's errors (WSREP) are left out if there are others: its library logs some after the error that ended the
    server.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.partition("[ERROR] ")[2] for line in lines if "[ERROR] " in line and "Aborting" not in line]
    causes = [error for error in errors if not error.startswith("WSREP:")]
    return causes[-most:] or errors[-most:] or lines[-1:]
