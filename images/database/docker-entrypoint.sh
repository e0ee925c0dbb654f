#!/bin/bash
# Starts a database server like the vendors' images (same variables, same hooks), but without a temporary server: it copies
# the prepared data directory, and the real server runs accounts and hooks from an init file before it listens.
#
# The init file is in the data directory and marks an unfinished first start: its last statement writes FINISHED.
# A first start that was killed leaves the init file without FINISHED, and the next start repeats it from the beginning.
set -eo pipefail
shopt -s nullglob

DATADIR=/var/lib/mysql
PREPARED=/opt/datadir
HOOKS=/docker-entrypoint-initdb.d
SOCKET=/run/mysqld/mysqld.sock
SPLIT_STATEMENTS=/usr/local/lib/split-statements.awk
INIT_FILE=$DATADIR/.first-start.sql
FINISHED=$DATADIR/.first-start.finished
CLOCK=/run/mysqld/clock
ROLE=/etc/mysql/role
OWN_SETTINGS=/etc/mysql/start.d
SERVER=$(command -v mariadbd || command -v mysqld)
CLIENT=$(command -v mariadb || command -v mysql)
# MariaDB's client requires TLS, also on a socket. One image has only this client, and a server built without TLS.
WITHOUT_TLS=()
[[ $CLIENT != */mariadb ]] || WITHOUT_TLS=(--skip-ssl)

log() {
    printf '%s [entrypoint] %s\n' "$(date -u +%FT%TZ)" "$1" >&2
}

fail() {
    log "error: $1"
    exit 1
}

# --- arguments ------------------------------------------------------------------------------------------------------

is_server() {
    [[ ${1##*/} == @(mysqld|mariadbd) ]]
}

wants_information_only() {
    local argument
    for argument in "$@"; do
        case $argument in -\? | --help | --print-defaults | -V | --version) return 0 ;; esac
    done
    return 1
}

# --- environment ----------------------------------------------------------------------------------------------------

# Sets VARIABLE from the first that is set: MYSQL_NAME, MYSQL_NAME_FILE, MARIADB_NAME, MARIADB_NAME_FILE.
read_setting() {
    local name=$1 spelling file
    for spelling in "MYSQL_$name" "MARIADB_$name"; do
        file=${spelling}_FILE
        [[ -z ${!spelling:-} || -z ${!file:-} ]] || fail "both $spelling and $file are set; expected one of them"
        if [[ -n ${!spelling:-} ]]; then
            printf -v "$name" %s "${!spelling}"
            return
        elif [[ -n ${!file:-} ]]; then
            [[ -r ${!file} ]] || fail "$file names ${!file}, which cannot be read"
            printf -v "$name" %s "$(<"${!file}")"
            return
        fi
    done
    printf -v "$name" %s ""
}

read_environment() {
    local name
    for name in ROOT_PASSWORD RANDOM_ROOT_PASSWORD ALLOW_EMPTY_PASSWORD ROOT_HOST DATABASE USER PASSWORD; do
        read_setting "$name"
    done
    [[ -z $USER || -n $PASSWORD ]] || fail "MYSQL_USER is set without MYSQL_PASSWORD; set both"
    [[ -z $PASSWORD || -n $USER ]] || fail "MYSQL_PASSWORD is set without MYSQL_USER; set both"
    [[ $USER != root ]] || fail "MYSQL_USER is root, which always exists; set MYSQL_ROOT_PASSWORD instead"
}

choose_root_password() {
    if [[ -n $ROOT_PASSWORD || -n $ALLOW_EMPTY_PASSWORD ]]; then
        return
    elif [[ -n $RANDOM_ROOT_PASSWORD ]]; then
        ROOT_PASSWORD=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')
        log "GENERATED ROOT PASSWORD: $ROOT_PASSWORD"
    else
        fail "no root password: set one of MYSQL_ROOT_PASSWORD, MYSQL_RANDOM_ROOT_PASSWORD, MYSQL_ALLOW_EMPTY_PASSWORD"
    fi
}

# --- data directory -------------------------------------------------------------------------------------------------

drop_root() {
    log "running as root: changing the owner of the data directory to mysql and continuing as mysql"
    chown -R mysql:mysql "$DATADIR" || fail "$DATADIR cannot be given to mysql; add capabilities CHOWN, SETUID, SETGID"
    exec setpriv --reuid=mysql --regid=mysql --init-groups -- "${BASH_SOURCE[0]}" "$@"
}

# A node of a cluster records its cluster (membership.log) before it holds any data.
is_empty() {
    [[ -z $(find "$DATADIR" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name membership.log -print -quit) ]]
}

was_interrupted() {
    [[ -e $INIT_FILE && ! -e $FINISHED ]]
}

discard_interrupted_first_start() {
    log "the first start was interrupted; starting over with an empty data directory"
    # Remove the init file last: if this is killed, the next start still finds it.
    find "$DATADIR" -mindepth 1 -maxdepth 1 ! -name lost+found ! -path "$INIT_FILE" -exec rm -rf {} +
    rm -f "$INIT_FILE"
}

copy_prepared_datadir() {
    cp -a --reflink=auto "$PREPARED/." "$DATADIR/"
}

require_writable_datadir() {
    [[ -w $DATADIR ]] || fail "$DATADIR cannot be written by uid $(id -u); on the host: chown -R $(id -u) DIRECTORY"
}

# --- first start: statements ----------------------------------------------------------------------------------------

quoted() {
    local text=${1//\\/\\\\}
    printf "'%s'" "${text//\'/\'\'}"
}

# Not in the binary log: each node creates its own accounts, and a replica must not have transactions of its own.
account_statements() {
    local password host
    password=$(quoted "$ROOT_PASSWORD")
    echo "SET SESSION sql_log_bin = 0;"
    for host in localhost "${ROOT_HOST:-%}"; do
        echo "CREATE USER 'root'@'$host' IDENTIFIED BY $password;"
        echo "GRANT ALL PRIVILEGES ON *.* TO 'root'@'$host' WITH GRANT OPTION;"
    done
    [[ -z $DATABASE ]] || echo "CREATE DATABASE \`$DATABASE\`;"
    [[ -z $USER ]] || echo "CREATE USER $(quoted "$USER")@'%' IDENTIFIED BY $(quoted "$PASSWORD");"
    # An underscore is a wildcard in the database name of a GRANT.
    [[ -z $USER || -z $DATABASE ]] || echo "GRANT ALL PRIVILEGES ON \`${DATABASE//_/\\_}\`.* TO $(quoted "$USER")@'%';"
    echo "SET SESSION sql_log_bin = 1;"
}

# Prints the statements of the hooks, or fails when the init file cannot hold them.
hook_statements() {
    local hook
    for hook in "$HOOKS"/*; do
        case $hook in
            *.sql)
                [[ -z $DATABASE ]] || echo "USE \`$DATABASE\`;"
                awk -f "$SPLIT_STATEMENTS" "$hook" || return 1
                ;;
            *.sh | *.sql.gz) return 1 ;;
        esac
    done
}

finish_statement() {
    echo "SELECT 'finished' INTO OUTFILE '$FINISHED';"
}

write_init_file() {
    (umask 077 && cat >"$INIT_FILE")
}

# --- first start: the vendors' way, for hooks that an init file cannot hold -----------------------------------------

ask_by_socket() {
    MYSQL_PWD=$ROOT_PASSWORD "$CLIENT" --no-defaults "${WITHOUT_TLS[@]}" --user=root --socket="$SOCKET" "$@"
}

start_temporary_server() {
    "$@" --init-file="$INIT_FILE" --skip-networking --loose-skip-mysqlx --loose-wsrep-on=OFF &
    TEMPORARY_SERVER=$!
    until ask_by_socket --execute="SELECT 1" &>/dev/null; do
        kill -0 "$TEMPORARY_SERVER" 2>/dev/null || fail "the server stopped in its first start; its messages are above"
        sleep 0.1
    done
}

stop_temporary_server() {
    kill "$TEMPORARY_SERVER"
    wait "$TEMPORARY_SERVER" || fail "the temporary server did not stop cleanly"
}

# shellcheck disable=SC1090 # the sourced file is known only when the container runs
run_hook() {
    log "hook $1"
    case $1 in
        *.sh) if [[ -x $1 ]]; then "$1"; else . "$1"; fi ;;
        *.sql) ask_by_socket ${DATABASE:+"--database=$DATABASE"} <"$1" ;;
        *.sql.gz) gunzip --stdout "$1" | ask_by_socket ${DATABASE:+"--database=$DATABASE"} ;;
        *) log "ignored: expected .sh, .sql or .sql.gz" ;;
    esac
}

run_hooks_in_temporary_server() {
    local hook
    start_temporary_server "$@"
    for hook in "$HOOKS"/*; do
        # Not called in a condition, so that `set -e` also acts inside a sourced hook.
        HOOK=$hook
        run_hook "$hook"
    done
    HOOK=""
    stop_temporary_server
    touch "$FINISHED"
}

# --- steps ----------------------------------------------------------------------------------------------------------

tell_failed_hook() {
    local code=$?
    [[ $code -eq 0 || -z ${HOOK:-} ]] || log "error: hook $HOOK failed with exit code $code; the next start repeats the first start"
}

# Sets INIT_ARGUMENTS to the additional arguments of the real server.
prepare_first_start() {
    local hooks
    choose_root_password
    log "first start"
    if hooks=$(hook_statements); then
        { account_statements; echo "$hooks"; finish_statement; } | write_init_file
        copy_prepared_datadir
        INIT_ARGUMENTS=("--init-file=$INIT_FILE")
    else
        account_statements | write_init_file
        copy_prepared_datadir
        run_hooks_in_temporary_server "$@"
    fi
}

forget_first_start() {
    # Remove the init file first: FINISHED alone has no meaning, but the init file alone means an unfinished first start.
    rm -f "$INIT_FILE"
    rm -f "$FINISHED"
}

# Without a certificate MariaDB 11.4 and later make one at each start, whose RSA key takes up to 1 s of CPU. This one takes 10 ms.
# The folder is in the images of these servers; settings in conf.d, and arguments, win over it. [sst] keeps Galera's state
# transfers without TLS: once a server has a certificate, a transfer by rsync requires TLS and never ends.
make_certificate() {
    local certificate=$OWN_SETTINGS/certificate.pem key=$OWN_SETTINGS/key.pem
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 -subj "/CN=MariaDB Server" \
        -keyout "$key" -out "$certificate" 2>/dev/null || fail "openssl could not write $certificate"
    printf '[mariadbd]\nssl_cert = %s\nssl_key = %s\n[sst]\nssl_mode = DISABLED\n' "$certificate" "$key" \
        >"$OWN_SETTINGS/certificate.cnf"
}

# The server's wall clock is the host's plus the offset in CLOCK, in seconds, which libfaketime reads once a second. Timers and
# sleeps are not affected.
follow_clock() {
    local library=(/usr/lib/*/faketime/libfaketimeMT.so.1)
    [[ -e ${library[0]:-} ]] || fail "LAB_CLOCK is adjustable, and there is no libfaketime in this image; expected real"
    echo +0 >"$CLOCK"
    export LD_PRELOAD=${library[0]} FAKETIME_TIMESTAMP_FILE=$CLOCK FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1
}

_main() {
    local role
    trap 'exit 143' TERM INT
    trap tell_failed_hook EXIT
    if [[ $# -eq 0 || $1 == -* ]]; then set -- "$SERVER" "$@"; fi
    if ! is_server "$1" || wants_information_only "$@"; then exec "$@"; fi
    if [[ $(id -u) -eq 0 ]]; then drop_root "$@"; fi

    read_environment
    require_writable_datadir
    INIT_ARGUMENTS=()
    if [[ -w $OWN_SETTINGS ]]; then make_certificate; fi
    if was_interrupted; then discard_interrupted_first_start; fi
    if is_empty; then
        prepare_first_start "$@"
    else
        forget_first_start
    fi
    # Keep the role that a failover gave this node, whatever its Compose file says. ROLE has one option per line.
    if [[ -s $ROLE ]]; then
        mapfile -t role <"$ROLE"
        set -- "$@" "${role[@]}"
    fi
    if [[ ${LAB_CLOCK:-real} == adjustable ]]; then follow_clock; fi
    exec "$@" "${INIT_ARGUMENTS[@]}"
}

_main "$@"
