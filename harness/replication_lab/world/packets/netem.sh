#!/bin/bash
# Duplicates and reorders packets that leave a network namespace, by netem. No program of its own: world/packets/netem.py sends
# these functions into the namespace, and a call of one of them.
#
# Each device gets a queue with several bands. The first is for all other packets; each direction of a link has one of the rest,
# with a netem. Filters lead its packets there. Their twins count before the queue, and so without the duplicates.
ROOT=4c BANDS=16 QUEUE=10000 STATE=/run/lab-netem
# An address that is reserved for documentation (RFC 5737), so that no machine has it, and the MAC address that it gets in the
# neighbour table: datagrams leave the device, and no machine receives them.
NOBODY=192.0.2.1 NOBODYS_DEVICE=02:4c:41:42:00:01
: "${LAB_DEVICES:=}"

lacks() {
    echo "lacks $(uname -r) $1" >&2
    exit 1
}

# Of a container, all that lead out of it; of a machine, the one that leads to its peer.
devices() {
    local found
    found=${LAB_DEVICES:-$(ip -oneline link show type veth | sed 's/^[0-9]*: \([^@:]*\).*/\1/')}
    echo "${found:-$(ip -oneline route show default | sed 's/.* dev \([^ ]*\).*/\1/')}"
}

prepare() {
    local everything
    if tc qdisc show dev "$1" | grep --quiet "^qdisc prio $ROOT: root"; then return; fi
    # By itself: what comes later can fail for other reasons.
    tc qdisc replace dev "$1" root netem || lacks 'sch_netem (CONFIG_NET_SCH_NETEM)'
    printf -v everything '%*s' "$BANDS" ''
    # shellcheck disable=SC2086 # a number for each priority
    tc qdisc replace dev "$1" root handle "$ROOT:" prio bands "$BANDS" priomap ${everything// /0 } ||
        lacks 'sch_prio (CONFIG_NET_SCH_PRIO)'
    tc qdisc replace dev "$1" clsact || lacks 'sch_ingress (CONFIG_NET_SCH_INGRESS)'
}

restore() {
    tc qdisc delete dev "$1" clsact
    tc qdisc delete dev "$1" root
} 2>/dev/null

# put BAND EFFECTS MATCH…: what netem does, and which packets it does it to. Empties the band first: netem keeps what is not said.
put() {
    local device match class
    printf -v class '%s:%x' "$ROOT" "$1"
    [[ -n $(devices) ]] || { echo "no device leads out of here" >&2 && exit 1; }
    for device in $(devices); do
        prepare "$device"
        empty "$device" "$1"
        # shellcheck disable=SC2086 # words
        tc qdisc add dev "$device" parent "$class" netem limit "$QUEUE" $2 || exit 1
        for match in "${@:3}"; do
            filter "$device" "parent $ROOT:" "$1" "$match" "$class"
            filter "$device" egress "$1" "$match" "$class"
        done
    done
}

filter() {
    # shellcheck disable=SC2086 # words
    tc filter add dev "$1" $2 protocol ip pref "$3" u32 $4 classid "$5" || lacks 'cls_u32 (CONFIG_NET_CLS_U32)'
}

empty() {
    tc filter delete dev "$1" parent "$ROOT:" pref "$2"
    tc filter delete dev "$1" egress pref "$2"
    tc qdisc delete dev "$1" parent "$(printf '%s:%x' "$ROOT" "$2")"
    true
} 2>/dev/null

drop() {
    local device
    for device in $(devices); do empty "$device" "$1"; done
}

# remember LINE…: one for each effect. Without any, the devices get their own queues back.
remember() {
    local device
    if (($#)); then
        printf '%s\n' "$@" >"$STATE"
        return
    fi
    rm -f "$STATE"
    for device in $(devices); do restore "$device"; done
}

# The effects, and for each device the twins of the filters, the filters and the queues, as tc prints them.
show() {
    local device
    [[ -e $STATE ]] || return 0
    cat "$STATE"
    for device in $(devices); do
        echo "device $device"
        counters "$device" 2>/dev/null
    done
}

# Numbers of one moment, if a moment without a packet comes soon; where there are many packets, a few do not matter.
counters() {
    local found try
    for ((try = 0; try < 10; try++)); do
        found=$(printf '%s\n' "filter show dev $1 egress" "filter show dev $1 parent $ROOT:" "qdisc show dev $1" \
            "filter show dev $1 egress" | tc -statistics -json -batch -)
        if [[ $(head -n 1 <<<"$found") == $(tail -n 1 <<<"$found") ]]; then break; fi
    done
    head -n 3 <<<"$found"
}

# Whether the filters count what they match.
counted() {
    tc -statistics -json filter show dev lo egress | grep --quiet success || lacks 'counters of cls_u32 (CONFIG_CLS_U32_PERF)'
}

# burst ADDRESS PORT COUNT: sends datagrams through the band; an empty ADDRESS stands for one that no machine has.
burst() {
    local device number
    device=$(devices | head -n 1)
    if [[ -z $1 ]]; then
        ip neighbour replace "$NOBODY" lladdr "$NOBODYS_DEVICE" dev "$device" nud permanent || exit 1
        ip route replace "$NOBODY/32" dev "$device" || exit 1
    fi
    exec 3>"/dev/udp/${1:-$NOBODY}/$2"
    for ((number = 0; number < $3; number++)); do echo >&3; done
    exec 3>&-
}
