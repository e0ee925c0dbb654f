"""The options that only the lab may set, each with the reason."""

from fnmatch import fnmatchcase

from replication_lab.model.core.errors import LabError

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


def refuse_reserved(name: str, place: str = "") -> None:
    """Raise LabError for an option that the lab sets itself; `place` is where a file has it."""
    if reason := next((why for pattern, why in RESERVED.items() if fnmatchcase(name, pattern)), ""):
        raise LabError(
            f"{place}: {name} cannot be set: {reason}" if place else f"{name} cannot be set: {reason}",
            IN_PLACE.get(name, "other options"),
            "remove it from a copy of the file" if place else "",
        )
