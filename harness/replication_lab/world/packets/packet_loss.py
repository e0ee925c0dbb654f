"""Loss of packets between a node and a link's proxy, by rules of the kernel in the proxy's network namespace.

A packet that comes in is dropped by chance before the proxy sees it. A packet that goes out cannot simply be dropped:
the kernel would report that to TCP, which would not treat it as lost. So it is marked by chance, routed to the loopback
device, and dropped there.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replication_lab.model.lab.packets import Packets
from replication_lab.model.lab.toxic import PACKET_LOSS, Toxic, ToxicBody
from replication_lab.world.packets.namespace import Namespace, Refused, impossible, refused_here

IN, OUT, MARKED = "LAB-IN", "LAB-OUT", "LAB-MARKED"
# The highest byte marks packets to be lost; the port is in the lowest two. The table's number is that byte.
MARK, MASK, TABLE = 0x4C000000, 0xFF000000, 0x4C
# An address of documentation (RFC 5737), to ask the kernel where a marked packet would go.
ELSEWHERE = "192.0.2.1"
_CHAIN = re.compile(r"\[(?P<packets>\d+):\d+\] -A (?P<chain>LAB-(?:IN|OUT)-\d+) (?P<rest>.*)")
_BODY = re.compile(r'-m comment --comment "(?P<stream>\w+) (?P<name>.+)"$')
_CHANCE = re.compile(r"-m statistic --mode random --probability (?P<share>[0-9.]+) -j (?:DROP|MARK --set-xmark \S+)$")
_MARKED = re.compile(rf"\[(?P<packets>\d+):\d+\] -A {MARKED} -m mark --mark (?P<mark>0x[0-9a-f]+) -j DROP$")


@dataclass(frozen=True)
class Ports:
    """The proxy's ports that carry one direction of a link: into the proxy, and out of it."""

    into: tuple[int, ...] = ()
    out: tuple[int, ...] = ()

    @property
    def chains(self) -> list[str]:
        return [*(f"{IN}-{port}" for port in self.into[:1]), *(f"{OUT}-{port}" for port in self.out[:1])]


@dataclass(frozen=True)
class LossChain:
    """A chain as it is in the kernel; one that lacks a part does not lose packets, and is not complete."""

    body: ToxicBody
    packets: Packets
    complete: bool


# --- the rules as text ------------------------------------------------------------------------------------------------

# A step that fails names what the kernel lacks.
_STEPS = """
rule() { iptables -w "$@"; }
lacks() { echo "lacks $(uname -r) $1" >&2; exit 1; }
drop_chain() {
    iptables -w -t "$1" -S "$2" 2>/dev/null | sed -n "s/^-A \\(.* -j $3\\)$/\\1/p" \\
        | while read -r jump; do eval "rule -t $1 -D $jump"; done
    rule -t "$1" -F "$3" 2>/dev/null && rule -t "$1" -X "$3"
    true
}
"""


def put_script(body: ToxicBody, ports: Ports) -> str:
    """Return the shell commands that make a loss on these ports, in place of the one that is there."""
    share, said = f"{body.attributes['percent'] / 100:.6f}", f"-m comment --comment '{body.stream} {body.name}'"
    chance = f"-m statistic --mode random --probability {share}"
    lines = [_STEPS, drop_script(ports)]
    for port in ports.into[:1]:
        chain = f"{IN}-{port}"
        lines += [
            f"rule -t raw -N {chain} || lacks 'the table raw of iptables (CONFIG_IP_NF_RAW)'",
            f"rule -t raw -A {chain} {said}",
            f"rule -t raw -A {chain} {chance} -j DROP || lacks 'xt_statistic (CONFIG_NETFILTER_XT_MATCH_STATISTIC)'",
            *_jumps("raw", "PREROUTING", f"-m multiport --dports {_list(ports.into)}", port, chain),
        ]
    for port in ports.out[:1]:
        chain, mark = f"{OUT}-{port}", f"{MARK + port:#x}"
        lines += [
            f"rule -t raw -N {MARKED} 2>/dev/null && rule -t raw -I PREROUTING -i lo -j {MARKED}",
            f"rule -t raw -A {MARKED} -m mark --mark {mark} -j DROP || lacks 'xt_mark (CONFIG_NETFILTER_XT_MARK)'",
            f"ip -4 rule show | grep -q 'lookup {TABLE}' || ip -4 rule add fwmark {MARK:#x}/{MASK:#x} lookup {TABLE} "
            f"priority {TABLE} || lacks 'policy routing (CONFIG_IP_MULTIPLE_TABLES)'",
            f"ip -4 route replace default dev lo table {TABLE} || lacks 'policy routing (CONFIG_IP_MULTIPLE_TABLES)'",
            f"rule -t mangle -N {chain} || lacks 'the table mangle of iptables (CONFIG_IP_NF_MANGLE)'",
            f"rule -t mangle -A {chain} {said}",
            f"rule -t mangle -A {chain} {chance} -j MARK --set-mark {mark} "
            "|| lacks 'xt_statistic (CONFIG_NETFILTER_XT_MATCH_STATISTIC)'",
            *_jumps("mangle", "OUTPUT", f"-m multiport --sports {_list(ports.out)}", port, chain),
        ]
    return "\n".join(lines)


def _jumps(table: str, hook: str, match: str, port: int, chain: str) -> list[str]:
    lacks = "lacks 'xt_multiport (CONFIG_NETFILTER_XT_MATCH_MULTIPORT)'"
    return [
        f"rule -t {table} -A {hook} -p tcp {match} -j {chain} || {lacks}",
        # The lab's own datagrams, by which it proves the chance before there is any load.
        f"rule -t {table} -A {hook} -p udp --dport {port} -j {chain} || {lacks}",
    ]


def _list(ports: Iterable[int]) -> str:
    return ",".join(map(str, ports))


def drop_script(ports: Ports) -> str:
    """Return the shell commands that remove the loss on these ports; it need not be there."""
    lines = [f"drop_chain raw PREROUTING {IN}-{port}" for port in ports.into[:1]]
    for port in ports.out[:1]:
        lines += [
            f"drop_chain mangle OUTPUT {OUT}-{port}",
            f"while rule -t raw -D {MARKED} -m mark --mark {MARK + port:#x} -j DROP 2>/dev/null; do :; done",
        ]
    return "\n".join(lines)


def read_script() -> str:
    return (
        "iptables-save -c -t raw && iptables-save -c -t mangle "
        f"&& {{ ip -4 route get {ELSEWHERE} mark {MARK:#x} 2>&1 || true; }}"
    )


def burst_script(ports: Sequence[int], count: int) -> str:
    """Return the shell commands that send datagrams to these ports of the namespace itself.

    Nothing receives them. The kernel reports that at every second one, which is then not sent.
    """
    each = "for ((i = 0; i < {count}; i++)); do echo >&3; done 2>/dev/null"
    return "\n".join(
        f"exec 3>/dev/udp/127.0.0.1/{port}\n{each.format(count=2 * count + 100)}\nexec 3>&-" for port in ports
    )


def parsed(text: str) -> dict[str, LossChain]:
    """Return the rules in the output of `read_script`, by chain."""
    lines = text.splitlines()
    marked = {int(found["mark"], 16) - MARK: int(found["packets"]) for found in map(_MARKED.match, lines) if found}
    to_loopback = bool(re.search(rf"^(?:local )?{re.escape(ELSEWHERE)} .*dev lo ", text, re.MULTILINE))
    seen: dict[str, tuple[int, str, str]] = {}
    chance: dict[str, tuple[int, float]] = {}
    jumps = set(re.findall(r"-A (?:PREROUTING|OUTPUT) -p tcp .* -j (LAB-(?:IN|OUT)-\d+)$", text, re.MULTILINE))
    to_marked = f"-A PREROUTING -i lo -j {MARKED}" in text
    for line in filter(None, map(_CHAIN.match, lines)):
        if body := _BODY.match(line["rest"]):
            seen[line["chain"]] = (int(line["packets"]), body["stream"], body["name"])
        elif share := _CHANCE.match(line["rest"]):
            chance[line["chain"]] = (int(line["packets"]), round(100 * float(share["share"]), 4))
    rules = {}
    for chain in seen.keys() | chance.keys() | jumps:
        packets, stream, name = seen.get(chain, (0, "", "loss"))
        kind, _, port = chain.rpartition("-")
        dropped, percent = chance.get(chain, (0, 0.0))
        complete = chain in seen and chain in chance and chain in jumps
        if kind == OUT:
            complete = complete and to_marked and to_loopback and int(port) in marked
            dropped = marked.get(int(port), 0)
        body_ = ToxicBody(name, PACKET_LOSS, stream, {"percent": percent})
        rules[chain] = LossChain(body_, Packets(packets, dropped), complete)
    return rules


# --- the rules in the kernel ------------------------------------------------------------------------------------------


class PacketRules:
    """The rules in the network namespace of one Toxiproxy."""

    def __init__(self, namespace: Namespace):
        self._namespace = namespace

    def read(self) -> dict[str, LossChain]:
        """Return the rules by chain; none if the lab never made any."""
        return parsed(self._run_if_used(read_script()))

    def put(self, body: ToxicBody, ports: Ports) -> None:
        """Lose packets on these ports; LabError that names what the kernel lacks, and no rule left, if it cannot."""
        try:
            self._namespace.run(put_script(body, ports))
        except Refused as error:
            self.remove(ports)
            raise impossible("lost", str(error)) from error

    def remove(self, ports: Ports) -> None:
        self._run_if_used(f"{_STEPS}{drop_script(ports)}")

    def burst(self, ports: Sequence[int], count: int) -> None:
        """Send about `count` datagrams through the rules of each of these ports."""
        self._run_if_used(burst_script(ports, count))

    def _run_if_used(self, script: str) -> str:
        try:
            return self._namespace.run_if_used(script)
        except Refused as error:
            raise impossible("lost", str(error)) from error


def refuse_unable(toxics: Iterable[Toxic]) -> None:
    """Raise LabError, before anything starts, if a toxic loses packets and this host's kernel cannot."""
    losing = [body for toxic in toxics for body in toxic.of_packets if body.type == PACKET_LOSS]
    if losing and (said := refused_here(put_script(losing[0], Ports((1,), (1,))))):
        raise impossible("lost", said)
