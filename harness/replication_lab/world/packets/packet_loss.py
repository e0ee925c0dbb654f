"""Loss of packets between a node and a link's proxy, by rules of the kernel in the proxy's network namespace.

A packet that comes in is dropped by chance before the proxy sees it. A packet that goes out cannot simply be dropped:
the kernel would report that to TCP, which would not treat it as lost. So it is marked by chance, routed to the loopback
device, and dropped there. `packet_loss.sh` has the steps.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replication_lab.model.lab.packets import Packets
from replication_lab.model.lab.toxic import PACKET_LOSS, Toxic, ToxicBody
from replication_lab.world.packets.namespace import Namespace, Refused, impossible, read, refused_here

STEPS = Path(__file__).with_suffix(".sh").read_text()
READ = f"{STEPS}\nshow"
# As in packet_loss.sh.
IN, OUT, MARKED = "LAB-IN", "LAB-OUT", "LAB-MARKED"
MARK, ELSEWHERE = 0x4C000000, "192.0.2.1"
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


def put_script(body: ToxicBody, ports: Ports) -> str:
    """Return the shell commands that make a loss on these ports, in place of the one that is there."""
    what = f"{body.attributes['percent'] / 100:.6f} '{body.stream} {body.name}' "
    return "\n".join([drop_script(ports), *_calls("lose", ports, what)])


def drop_script(ports: Ports) -> str:
    return "\n".join([STEPS, *_calls("drop", ports)])


def _calls(step: str, ports: Ports, what: str = "") -> list[str]:
    ways = {"in": ports.into, "out": ports.out}
    return [f"{step}_{way} {what}{','.join(map(str, those))}" for way, those in ways.items() if those]


def parsed(text: str) -> dict[str, LossChain]:
    """Return the rules in the output of `show`, by chain."""
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


class PacketRules:
    """The rules in the network namespace of one Toxiproxy."""

    def __init__(self, namespace: Namespace):
        self._namespace = namespace

    def read(self) -> dict[str, LossChain]:
        """Return the rules by chain; none if the lab never made any."""
        return parsed(read(self._namespace, READ, "lost"))

    def put(self, body: ToxicBody, ports: Ports) -> None:
        """Lose packets on these ports; LabError that names what the kernel lacks, and no rule left, if it cannot."""
        try:
            self._namespace.run(put_script(body, ports))
        except Refused as error:
            self.remove(ports)
            raise impossible("lost", str(error)) from error

    def remove(self, ports: Ports) -> None:
        read(self._namespace, drop_script(ports), "lost")

    def burst(self, ports: Sequence[int], count: int) -> None:
        """Send about `count` datagrams through the rules of each of these ports."""
        read(self._namespace, f"{STEPS}\nburst {count} {' '.join(map(str, ports))}", "lost")


def refuse_unable(toxics: Iterable[Toxic]) -> None:
    """Raise LabError, before anything starts, if a toxic loses packets and this host's kernel cannot."""
    losing = [body for toxic in toxics for body in toxic.of_packets if body.type == PACKET_LOSS]
    if losing and (said := refused_here(put_script(losing[0], Ports((1,), (1,))))):
        raise impossible("lost", said)
