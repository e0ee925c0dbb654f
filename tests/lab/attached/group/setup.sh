#!/bin/bash
# Begin the group on the first member, let the others join, and let each join again by itself after a restart.
set -e

ask() {
    mysql --host="$1" --user=root --execute="$2"
}

for member in mysql1 mysql2 mysql3; do
    # What the image wrote at the first start is no transaction of the group.
    ask "$member" "RESET MASTER"
    if [ "$member" = mysql1 ]; then
        ask "$member" "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION;
            SET GLOBAL group_replication_bootstrap_group = OFF"
    else
        ask "$member" "START GROUP_REPLICATION"
    fi
    ask "$member" "SET PERSIST group_replication_start_on_boot = ON"
done
ask mysql1 "CREATE TABLE shop.orders (
    id BIGINT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40) NOT NULL, done BOOL NOT NULL DEFAULT 0)"
