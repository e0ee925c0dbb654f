#!/bin/bash
# What the vendors' entrypoints do: start as root, give the data directory to mysql, initialise an empty one, run the hooks
# on a temporary server without TCP, and start the server as mysql with the command's flags.
set -eo pipefail
shopt -s nullglob

DATADIR=/var/lib/mysql
SOCKET=/run/mysqld/mysqld.sock

if [[ $1 == -* ]]; then set -- mariadbd "$@"; fi

if [[ $1 == mariadbd && $(id -u) == 0 ]]; then
    chown mysql "$DATADIR" /run/mysqld
    exec setpriv --reuid=mysql --regid=mysql --init-groups -- "${BASH_SOURCE[0]}" "$@"
fi

# As in the vendors' images: NAME_FILE names a file with the value of NAME, and MYSQL_NAME is another word for MARIADB_NAME.
value() {
    local name file
    for name in "MARIADB_$1" "MYSQL_$1"; do
        file=${name}_FILE
        if [[ -n ${!name-} ]]; then echo "${!name}"; return; fi
        if [[ -n ${!file-} ]]; then cat "${!file}"; return; fi
    done
}

client() {
    mariadb --no-defaults --skip-ssl --socket="$SOCKET" --user=root "$@"
}

if [[ $1 == mariadbd && ! -d $DATADIR/mysql ]]; then
    password=$(value ROOT_PASSWORD) database=$(value DATABASE) user=$(value USER)
    : "${password:?set MARIADB_ROOT_PASSWORD or MYSQL_ROOT_PASSWORD}"
    mariadb-install-db --datadir="$DATADIR" --skip-test-db --auth-root-authentication-method=normal >/dev/null
    "$@" --skip-networking --skip-slave-start --loose-wsrep-on=OFF &
    server=$!
    until client --execute="SELECT 1" &>/dev/null; do
        kill -0 "$server"
        sleep 0.2
    done
    client <<SQL
SET SESSION sql_log_bin = 0;
DROP USER IF EXISTS 'root'@'127.0.0.1', 'root'@'::1';
CREATE USER 'root'@'%' IDENTIFIED BY '$password';
GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;
SET PASSWORD FOR 'root'@'localhost' = PASSWORD('$password');
SQL
    if [[ $database ]]; then
        client --password="$password" --execute="SET SESSION sql_log_bin = 0; CREATE DATABASE \`$database\`"
    fi
    if [[ $user ]]; then
        client --password="$password" <<SQL
SET SESSION sql_log_bin = 0;
CREATE USER '$user'@'%' IDENTIFIED BY '$(value PASSWORD)';
GRANT ALL ON \`${database:-none}\`.* TO '$user'@'%';
SQL
    fi
    for hook in /docker-entrypoint-initdb.d/*.sql; do
        client --password="$password" <"$hook"
    done
    kill "$server"
    wait "$server"
fi

exec "$@"
