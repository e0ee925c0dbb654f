#!/bin/bash
# What the vendor's shell does for a cluster: an account for recovery on each member, the first one begins the group, the
# others join it, and each joins again by itself after a restart.
set -e

ask() {
    mysql --host="$1" --user=root --execute="$2"
}

for number in 1 2 3; do
    member=mysql-server-$number
    ask "$member" "SET SESSION sql_log_bin = 0;
        CREATE USER 'mysql_innodb_cluster_1'@'%' IDENTIFIED BY 'recovery';
        GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO 'mysql_innodb_cluster_1'@'%';
        SET SESSION sql_log_bin = 1;
        RESET MASTER;
        CHANGE REPLICATION SOURCE TO SOURCE_USER='mysql_innodb_cluster_1', SOURCE_PASSWORD='recovery' FOR CHANNEL 'group_replication_recovery'"
    if [ "$number" = 1 ]; then
        ask "$member" "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
            SET GLOBAL group_replication_bootstrap_group = OFF"
    else
        ask "$member" "START GROUP_REPLICATION"
    fi
    ask "$member" "SET PERSIST group_replication_start_on_boot = ON"
done
