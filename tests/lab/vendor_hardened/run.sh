#!/bin/bash
# What such vendors' entrypoints do: write a my.cnf from the variables, create the data directory, and either create the
# accounts, follow a source, or join a cluster. Only a node with an empty data directory begins a cluster.
set -eo pipefail

BASE=/opt/bitnami/mariadb
DATA=/bitnami/mariadb/data
SOCKET=$BASE/tmp/mysql.sock
CONF=$BASE/conf/my.cnf
MODE=${MARIADB_REPLICATION_MODE:-}
ADDRESS=${MARIADB_GALERA_CLUSTER_ADDRESS:-}

client() {
    mariadb --no-defaults --skip-ssl --socket="$SOCKET" --user=root "$@"
}

cat >"$CONF" <<CNF
[mysqld]
datadir = $DATA
socket = $SOCKET
tmpdir = $BASE/tmp
pid-file = $BASE/tmp/mysqld.pid
bind-address = 0.0.0.0
innodb-use-native-aio = 0
innodb-buffer-pool-size = 64M
binlog-format = ROW
CNF
if [[ $MODE ]]; then
    cat >>"$CONF" <<CNF
log-bin = mysql-bin
relay-log = mysql-relay-bin
server-id = ${MARIADB_SERVER_ID:-$((RANDOM + 1000))}
CNF
fi
[[ $MODE != slave ]] || echo "read-only = 1" >>"$CONF"
if [[ $ADDRESS ]]; then
    cat >>"$CONF" <<CNF
wsrep-on = ON
wsrep-provider = /usr/lib/galera/libgalera_smm.so
wsrep-cluster-name = ${MARIADB_GALERA_CLUSTER_NAME:-galera}
wsrep-cluster-address = $ADDRESS
wsrep-node-name = ${MARIADB_GALERA_NODE_NAME:-$(hostname)}
wsrep-sst-method = rsync
default-storage-engine = InnoDB
innodb-autoinc-lock-mode = 2
CNF
fi

if [[ ! -d $DATA/mysql ]]; then
    first=1
    mariadb-install-db --no-defaults --datadir="$DATA" --skip-test-db --auth-root-authentication-method=normal >/dev/null
    "$1" --defaults-file="$CONF" --skip-networking --skip-slave-start --wsrep-on=OFF &
    server=$!
    until client --execute="SELECT 1" &>/dev/null; do
        kill -0 "$server"
        sleep 0.2
    done
    password=${MARIADB_ROOT_PASSWORD:-$MARIADB_MASTER_ROOT_PASSWORD}
    {
        echo "SET SESSION sql_log_bin = 0;"
        echo "CREATE USER 'root'@'%' IDENTIFIED BY '$password'; GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;"
        [[ $MODE != master ]] || echo "CREATE USER '$MARIADB_REPLICATION_USER'@'%' IDENTIFIED BY '$MARIADB_REPLICATION_PASSWORD';
            GRANT REPLICATION SLAVE ON *.* TO '$MARIADB_REPLICATION_USER'@'%';"
        [[ $MODE == slave ]] || echo "SET SESSION sql_log_bin = 1; CREATE DATABASE $MARIADB_DATABASE; SET SESSION sql_log_bin = 0;
            CREATE USER '$MARIADB_USER'@'%' IDENTIFIED BY '$MARIADB_PASSWORD';
            GRANT ALL ON $MARIADB_DATABASE.* TO '$MARIADB_USER'@'%';"
        [[ $MODE != slave ]] || echo "CHANGE MASTER TO MASTER_HOST='$MARIADB_MASTER_HOST', MASTER_PORT=${MARIADB_MASTER_PORT_NUMBER:-3306},
            MASTER_USER='$MARIADB_REPLICATION_USER', MASTER_PASSWORD='$MARIADB_REPLICATION_PASSWORD', MASTER_USE_GTID=slave_pos,
            MASTER_CONNECT_RETRY=1, MASTER_SSL_VERIFY_SERVER_CERT=0;"
        echo "ALTER USER 'root'@'localhost' IDENTIFIED BY '$password';"
    } | client
    kill "$server"
    wait "$server"
fi

bootstrap=()
[[ ! ($first && ${MARIADB_GALERA_CLUSTER_BOOTSTRAP:-no} == yes) ]] || bootstrap=(--wsrep-new-cluster)
exec "$1" --defaults-file="$CONF" "${bootstrap[@]}"
