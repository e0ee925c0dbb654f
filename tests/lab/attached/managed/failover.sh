#!/bin/bash
# Promotes db2 when neither this script nor the proxy has got an answer of db1 for some seconds, or db1 has restarted: its
# recovery may have dropped what db2 has. When db1 is back, it follows db2, and gets its role again once it has everything.
set -u

FAILURES=4
FOLLOW="MASTER_USER='repl', MASTER_PASSWORD='repl-secret', MASTER_CONNECT_RETRY=1, MASTER_SSL_VERIFY_SERVER_CERT=0, MASTER_DEMOTE_TO_SLAVE=1"

say() { echo "$(date +%T) $*"; }

ask() { timeout 12 mariadb --no-defaults --skip-ssl --connect-timeout=2 --host="$1" --user=root --batch --skip-column-names --execute="$2"; }

# A field of a replica's state, empty for a server that is none.
state() { timeout 12 mariadb --no-defaults --skip-ssl --connect-timeout=2 --host="$1" --user=root --execute="SHOW SLAVE STATUS\\G" | sed -n "s/^ *$2: //p"; }

proxy() {
    exec 3<>/dev/tcp/proxy/9999 || return 1
    echo "$1" >&3
    timeout 2 cat <&3
    exec 3>&-
}

# What the proxy says of db1: UP, DOWN, MAINT.
seen() { proxy "show stat databases 4 -1" | awk -F, '$2 == "db1" { print $18 }'; }

promote() {
    local received
    say "db1 $1: db2 takes over"
    # First of all: a server that comes back meanwhile must get no writes.
    proxy "set server databases/db1 state maint; shutdown sessions server databases/db1"
    ask db2 "STOP SLAVE IO_THREAD"
    received=$(state db2 Gtid_IO_Pos)
    [[ $(ask db2 "SELECT MASTER_GTID_WAIT('$received', 10)") == 0 ]] || return
    # It has no replica that could acknowledge.
    ask db2 "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL rpl_semi_sync_master_enabled = 0, GLOBAL read_only = 0" || return
    proxy "set server databases/db2 state ready"
}

give_back() {
    say "db1 has everything again: it gets its role back"
    proxy "set server databases/db2 state maint; shutdown sessions server databases/db2"
    ask db2 "SET GLOBAL read_only = 1" || return
    # A statement that was sent before has ended by then.
    sleep 0.5
    if [[ $(ask db1 "SELECT MASTER_GTID_WAIT('$(ask db2 "SELECT @@gtid_binlog_pos")', 10)") != 0 ]]; then
        ask db2 "SET GLOBAL read_only = 0"
        proxy "set server databases/db2 state ready"
        return
    fi
    ask db1 "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0"
    ask db2 "CHANGE MASTER TO MASTER_HOST='db1', $FOLLOW; SET GLOBAL rpl_semi_sync_master_enabled = 1; START SLAVE"
    proxy "set server databases/db1 state ready"
}

look() {
    local refuses
    if [[ $(state db2 Master_Host) == db1 ]]; then
        refuses=$(ask db1 "SELECT @@GLOBAL.read_only")
        if [[ $refuses == 1 && -e /tmp/looked ]]; then
            promote "has restarted"
        elif [[ $refuses ]]; then
            failures=0
            ask db1 "SET GLOBAL read_only = 0" && touch /tmp/looked
            # Of a promotion that failed, or in which this script was killed.
            [[ $(state db2 Slave_IO_Running) != No ]] || ask db2 "START SLAVE"
            [[ $(seen) != MAINT ]] || proxy "set server databases/db1 state ready"
        elif [[ $(seen) == UP* ]] || ((++failures < FAILURES)); then
            return
        else
            promote "is lost"
        fi
    elif [[ $(ask db2 "SELECT @@GLOBAL.read_only") == 0 && $(ask db1 "SELECT 1") ]]; then
        if [[ -z $(state db1 Master_Host) ]]; then
            say "db1 is back: it follows db2"
            ask db1 "SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST='db2', $FOLLOW; START SLAVE"
        elif [[ $(state db1 Seconds_Behind_Master) == 0 ]]; then
            give_back
        fi
    fi
}

failures=0
while :; do
    look
    sleep 0.5
done
