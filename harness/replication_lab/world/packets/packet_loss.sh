#!/bin/bash
# Loses packets between a node and a link's proxy, by rules in the proxy's network namespace. No program of its own:
# world/packets/packet_loss.py sends these functions into the namespace, and a call of one of them.
#
# Ports are given as a list with commas; a chain is named after the first of them. The highest byte of a mark says that a packet
# is to be lost, and the lowest two are the port. The routing table has the number of that byte.
MARK=0x4c000000 MASK=0xff000000 TABLE=76 MARKED=LAB-MARKED
# An address that is reserved for documentation (RFC 5737), to ask the kernel where a marked packet would go.
ELSEWHERE=192.0.2.1
CHANCE='-m statistic --mode random --probability'

rule() { iptables -w "$@"; }

lacks() {
    echo "lacks $(uname -r) $1" >&2
    exit 1
}

# lose_in SHARE COMMENT PORTS: of what comes in.
lose_in() {
    local chain=LAB-IN-${3%%,*}
    rule -t raw -N "$chain" || lacks 'the table raw of iptables (CONFIG_IP_NF_RAW)'
    rule -t raw -A "$chain" -m comment --comment "$2"
    # shellcheck disable=SC2086 # words
    rule -t raw -A "$chain" $CHANCE "$1" -j DROP || lacks 'xt_statistic (CONFIG_NETFILTER_XT_MATCH_STATISTIC)'
    lead raw PREROUTING --dports "$3" "$chain"
}

# lose_out SHARE COMMENT PORTS: of what goes out.
lose_out() {
    local chain=LAB-OUT-${3%%,*} mark
    mark=$(marked "$3")
    rule -t raw -N "$MARKED" 2>/dev/null && rule -t raw -I PREROUTING -i lo -j "$MARKED"
    rule -t raw -A "$MARKED" -m mark --mark "$mark" -j DROP || lacks 'xt_mark (CONFIG_NETFILTER_XT_MARK)'
    ip -4 rule show | grep -q "lookup $TABLE" ||
        ip -4 rule add fwmark "$MARK/$MASK" lookup "$TABLE" priority "$TABLE" ||
        lacks 'policy routing (CONFIG_IP_MULTIPLE_TABLES)'
    ip -4 route replace default dev lo table "$TABLE" || lacks 'policy routing (CONFIG_IP_MULTIPLE_TABLES)'
    rule -t mangle -N "$chain" || lacks 'the table mangle of iptables (CONFIG_IP_NF_MANGLE)'
    rule -t mangle -A "$chain" -m comment --comment "$2"
    # shellcheck disable=SC2086 # words
    rule -t mangle -A "$chain" $CHANCE "$1" -j MARK --set-mark "$mark" ||
        lacks 'xt_statistic (CONFIG_NETFILTER_XT_MATCH_STATISTIC)'
    lead mangle OUTPUT --sports "$3" "$chain"
}

marked() { printf '%#x' $((MARK + ${1%%,*})); }

# lead TABLE HOOK SIDE PORTS CHAIN: the connections, and the lab's own datagrams, by which it proves the chance before any load.
lead() {
    rule -t "$1" -A "$2" -p tcp -m multiport "$3" "$4" -j "$5" || lacks 'xt_multiport (CONFIG_NETFILTER_XT_MATCH_MULTIPORT)'
    rule -t "$1" -A "$2" -p udp --dport "${4%%,*}" -j "$5" || lacks 'xt_multiport (CONFIG_NETFILTER_XT_MATCH_MULTIPORT)'
}

# What is to be dropped need not be there.
drop_in() { drop_chain raw PREROUTING "LAB-IN-${1%%,*}"; }

drop_out() {
    drop_chain mangle OUTPUT "LAB-OUT-${1%%,*}"
    while rule -t raw -D "$MARKED" -m mark --mark "$(marked "$1")" -j DROP 2>/dev/null; do :; done
}

drop_chain() {
    local jump
    iptables -w -t "$1" -S "$2" 2>/dev/null | sed -n "s/^-A \(.* -j $3\)$/\1/p" |
        while read -r jump; do eval "rule -t $1 -D $jump"; done
    rule -t "$1" -F "$3" 2>/dev/null && rule -t "$1" -X "$3"
    true
}

show() {
    iptables-save -c -t raw && iptables-save -c -t mangle && { ip -4 route get "$ELSEWHERE" mark "$MARK" 2>&1 || true; }
}

# burst COUNT PORT…: sends datagrams to ports of the namespace itself. Nothing receives them. The kernel reports that at every
# second one, which is then not sent.
burst() {
    local port number
    for port in "${@:2}"; do
        exec 3>"/dev/udp/127.0.0.1/$port"
        for ((number = 0; number < 2 * $1 + 100; number++)); do echo >&3; done 2>/dev/null
        exec 3>&-
    done
}
