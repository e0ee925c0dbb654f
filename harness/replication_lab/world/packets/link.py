"""One link of a running lab: its toxics, its on/off switch, and the server at its far end."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

import msgspec

from replication_lab.model.lab.packets import Packets
from replication_lab.model.lab.topology import BACK, Link
from replication_lab.model.lab.toxic import LATENCY, LINK_RATE, PACKET_KINDS, PACKET_LOSS, ToxicBody
from replication_lab.world.client_place import HERE, ClientPlace
from replication_lab.world.docker import beside_nodes, sites
from replication_lab.world.docker.service import Node, Service
from replication_lab.world.mysql.server import Server
from replication_lab.world.packets.namespace import Beside, Guest, Namespace
from replication_lab.world.packets.netem import Sender, Told
from replication_lab.world.packets.packet_loss import LossChain, PacketRules, Ports
from replication_lab.world.packets.pinger import Echo, Pinger, greets, passes
from replication_lab.world.packets.toxiproxy import Toxiproxy

UP = "upstream"
STREAMS = ("downstream", UP)
# After the name of an effect on packets whose rules are not as the lab made them.
DAMAGED = " (damaged)"
# Prints the segments that TCP had to queue because others were missing before them.
OUT_OF_ORDER = "nstat -asz TcpExtTCPOFOQueue | awk '/OFO/ { print $2 }'"
# The network of a resource, in which machine 1 is .1 (images/vm/machine), and a port to which nothing else is sent.
RESOURCE_NETWORK, DISCARD = "169.254.78", 9


@dataclass(frozen=True)
class RunningLink:
    """A link as it is in its lab's Toxiproxy.

    A link with several ports has an entry in Toxiproxy for each. A toxic or a cut applies to all of them, and the
    link's state is the worst of theirs.

    `model` is its description in the topology, `proxy` the service with its Toxiproxy; `node` returns a node at an end.
    """

    model: Link
    proxy: Service
    node: Callable[[str], Node]
    # Whether packets may be changed at the nodes; otherwise only at the proxy.
    touches_nodes: bool = True

    @property
    def name(self) -> str:
        return self.model.name

    @cached_property
    def toxiproxy(self) -> Toxiproxy:
        return toxiproxy_of(self.proxy)

    @cached_property
    def address(self) -> tuple[str, int]:
        """Return (host, port) at which this machine reaches the link's far end, across the link."""
        return self.proxy.direct_address(self.model.port)

    def connect(self, answer_seconds: float) -> Pinger:
        """Return a connection to the far end across the link, from where clients run; the caller closes it."""
        place, address = self._way
        return place.make(Pinger, self.far_end(), address, answer_seconds)

    def greets(self, seconds: float) -> bool:
        """Return whether the far end's first bytes arrive across the link within these seconds."""
        place, address = self._way
        return place.call(greets, address, seconds, self.model.echoes)

    def passes(self, size: int, seconds: float, *, is_question: bool) -> bool:
        """Return whether so many bytes cross the link to its far end, or from there, within these seconds.

        LabError if they do not for another reason, such as a server that is not ready.
        """
        place, address = self._way
        return place.call(passes, self.far_end(), address, seconds, size, is_question)

    @property
    def _way(self) -> tuple[ClientPlace, tuple[str, int]]:
        """Where clients of the link run, and the address that they dial."""
        return (beside_nodes.of(self.proxy) if self._clients_are_beside else HERE), self.address_for_clients

    @property
    def address_for_clients(self) -> tuple[str, int]:
        """Return (host, port) at which clients reach the link's far end, across the link, from where they run."""
        return (min(self.proxy.addresses()), self.model.port) if self._clients_are_beside else self.address

    @property
    def _clients_are_beside(self) -> bool:
        # Nothing is started in a project that the lab did not write.
        # In a lab on several sites the way from here to a proxy is not part of its links.
        return self.touches_nodes and (beside_nodes.from_container() or bool(sites.others(self.proxy.project)))

    @property
    def crosses_sites(self) -> bool:
        """Whether its ends are on different Docker engines, so that a real network is part of its round trip."""
        ends = (sites.of_service(self.proxy.project, each) for each in (self.model.source, self.model.target))
        return len(set(ends)) > 1

    def far_end(self) -> Server | Echo:
        """Return the server at the far end, or the echo in its place."""
        if self.model.echoes:
            return Echo(self.model.server)
        return self.node(self.model.server).server()

    def toxics(self) -> list[ToxicBody]:
        """Return the toxics of all ports of the link, as they can be added again, and its effects on packets."""
        found = {toxic.name: toxic for proxy in self.model.proxies for toxic in self._toxics_of(proxy)}
        return [*map(_without_line, found.values()), *self.of_packets()]

    def latency_ms(self) -> float:
        """Return what Toxiproxy adds to a round trip: the sum of both directions, in ms."""
        found = self._toxics_of(self.model.proxies[0])
        return sum(toxic.attributes["latency"] for toxic in found if toxic.type == LATENCY)

    @property
    def latency_step_ms(self) -> float:
        """The difference between two latencies that its Toxiproxy can make, in ms."""
        return self.toxiproxy.latency_step_ms

    def _toxics_of(self, proxy: str) -> list[ToxicBody]:
        """Return the toxics of a port, each in the direction of the link."""
        found = self.toxiproxy.toxics(proxy)
        return [toxic.reversed() for toxic in found] if proxy.endswith(BACK) else found

    def carries(self, toxics: set[str]) -> bool:
        """Return whether all of these toxics are on every port."""
        lacking: set[str] = set()
        for proxy in self.model.proxies:
            lacking |= toxics - {found.name for found in self._toxics_of(proxy)}
        return not lacking or lacking <= {body.name for body in self.of_packets()}

    def add(self, body: ToxicBody) -> None:
        if body.type == PACKET_LOSS:
            self._packet_rules.put(body, self._ports(body.stream))
            return
        if body.type in PACKET_KINDS:
            self._sender(body.stream).put(body)
            return
        for proxy in self.model.proxies:
            link = self.line(body) if body.type == LINK_RATE else ""
            self.toxiproxy.add(proxy, body.reversed() if proxy.endswith(BACK) else body, link)

    def line(self, body: ToxicBody) -> str:
        """Return the name under which all connections of the link's ports share a rate; each direction has its own."""
        return f"{self.name}/{body.name}"

    def shares(self, body: ToxicBody) -> bool:
        """Return whether a rate is on every port under the same name, which makes it the rate of all ports together."""
        own = (body.name, LINK_RATE, self.line(body))
        return all(
            own in {(each.name, each.type, each.attributes.get("link")) for each in self._toxics_of(proxy)}
            for proxy in self.model.proxies
        )

    def carried(self, body: ToxicBody) -> int:
        """Return the bytes that the connections of all ports have carried under a rate."""
        return self.toxiproxy.carried(self.line(body))

    def remove(self, toxic: str) -> None:
        """Remove a toxic from every port that it is on; LabError if it is on none."""
        holders = [each for each in self.model.proxies if toxic in {found.name for found in self._toxics_of(each)}]
        on_packets = self._of_packets_named(toxic) if not holders else []
        for body in on_packets:
            if body.type == PACKET_LOSS:
                self._packet_rules.remove(self._ports(body.stream))
            else:
                self._sender(body.stream).remove(body.name.removesuffix(DAMAGED))
        for proxy in holders or self.model.proxies[: not on_packets]:
            self.toxiproxy.call("DELETE", f"/proxies/{proxy}/toxics/{quote(toxic, safe='+=,')}")

    # --- packets ------------------------------------------------------------------------------------------------------

    @property
    def _packet_rules(self) -> PacketRules:
        return PacketRules(Beside(self.proxy))

    def of_packets(self) -> list[ToxicBody]:
        """Return the effects on the link's packets as the kernel has them now: lost, duplicated, reordered."""
        rules = self._packet_rules.read()
        losses = (self._loss(stream, rules) for stream in STREAMS) if rules else ()
        others = (_named(body, whole) for stream in STREAMS for body, whole in self._sender(stream).bodies())
        return [*(body for body in losses if body), *others]

    def _loss(self, stream: str, rules: dict[str, LossChain]) -> ToxicBody | None:
        """Return the loss in one direction; one that lacks a part has another name, so that it can be removed."""
        there = [rules[chain] for chain in self._ports(stream).chains if chain in rules]
        if not there:
            return None
        body = msgspec.structs.replace(there[0].body, stream=stream)
        return _named(body, bool(self._rules_of(body, rules)))

    def _of_packets_named(self, toxic: str) -> list[ToxicBody]:
        """Return the effects of a name; the removal of another one may have repaired a damaged one, or damaged it."""
        name = toxic.removesuffix(DAMAGED)
        return [body for body in self.of_packets() if body.name.removesuffix(DAMAGED) == name]

    def packets(self, body: ToxicBody) -> Packets | None:
        """Return the counters of an effect since it was put on; None if any of its rules is not there."""
        if body.type != PACKET_LOSS:
            return self._sender(body.stream).packets(body)
        found = self._rules_of(body, self._packet_rules.read())
        return Packets(sum(r.packets.seen for r in found), sum(r.packets.hit for r in found)) if found else None

    def out_of_order(self, body: ToxicBody) -> int | None:
        """Return how many packets TCP has received out of order at the end that an effect's direction leads to.

        Those of its other connections count too. None where the lab does not look.
        """
        end = self._receiver(body.stream)
        return int(end.run(OUT_OF_ORDER)) if end else None

    def send_packets(self, body: ToxicBody, count: int) -> None:
        """Send about `count` datagrams through the rules of an effect."""
        if body.type != PACKET_LOSS:
            self._sender(body.stream).burst(count)
            return
        ports = self._ports(body.stream)
        self._packet_rules.burst([*ports.into[:1], *ports.out[:1]], count)

    def _sender(self, stream: str) -> Sender:
        """Return where the packets of one direction leave.

        Toxiproxy ends TCP connections, so packets are those between the proxy and the node that opened the connection;
        of a replicated disk's machines, those from the sending one to the proxy. A project's own containers are not
        touched: what goes up there is taken between the proxy and the server.
        """
        model = self.model
        if model.joins_guests:
            ends = (model.dialler, model.server)
            node, peer = ends if stream == UP else ends[::-1]
            address = f"{RESOURCE_NETWORK}.{peer[-1]}"
            told = Told((f"match ip dst {address}/32",), DISCARD, address)
            return Sender(Guest(self.node(node)), self.name, stream, lambda: told)
        up_from_proxy = stream == UP and not self.touches_nodes
        sends = self.node(model.dialler) if stream == UP and not up_from_proxy else self.proxy
        server = int(model.upstream.rpartition(":")[2])
        side = "dport" if stream == UP else "sport"
        return Sender(
            Beside(sends), self.name, stream, lambda: _told(side, (server,) if up_from_proxy else self._ports(UP).into)
        )

    def _receiver(self, stream: str) -> Namespace | None:
        """Return where TCP receives what was sent, to count what comes out of order; None where the lab cannot look."""
        if not self.touches_nodes:
            return None
        from_proxy = stream != UP and not self.model.joins_guests
        return Beside(self.node(self.model.dialler) if from_proxy else self.proxy)

    def _rules_of(self, body: ToxicBody, rules: dict[str, LossChain]) -> list[LossChain]:
        chains = self._ports(body.stream).chains if rules else []
        found = [rules[chain] for chain in chains if chain in rules]
        whole = len(found) == len(chains)
        return found if whole and all(rule.complete and rule.body.name == body.name for rule in found) else []

    def _ports(self, stream: str) -> Ports:
        """Return the ports of the proxy that carry one direction of the link."""
        listens = {name: entry["listen"] for name, entry in self.toxiproxy.proxies().items()}
        ports = {name: int(listens[name].rpartition(":")[2]) for name in self.model.proxies}
        dialled = tuple(port for name, port in ports.items() if not name.endswith(BACK))
        back = tuple(port for name, port in ports.items() if name.endswith(BACK))
        return Ports(dialled, back) if stream == UP else Ports(back, dialled)

    # --- on and off ---------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Switch the link off: every connection across it ends, and new ones are refused."""
        self._switch(on=False)

    def enable(self) -> None:
        """Switch the link on."""
        self._switch(on=True)

    def _switch(self, on: bool) -> None:
        for proxy in self.model.proxies:
            self.toxiproxy.call("POST", f"/proxies/{proxy}", {"enabled": on})

    def enabled(self) -> bool:
        return all(self.toxiproxy.call("GET", f"/proxies/{proxy}")["enabled"] for proxy in self.model.proxies)

    def lets_through(self) -> bool:
        """Return whether any of its ports is switched on; a link is cut when none is."""
        return any(self.toxiproxy.call("GET", f"/proxies/{proxy}")["enabled"] for proxy in self.model.proxies)


def _told(side: str, ports: tuple[int, ...]) -> Told:
    """Return how TCP packets from or to these ports, and the lab's datagrams to the first, are told from others."""
    datagrams = f"match ip protocol 17 0xff match ip dport {ports[0]} 0xffff"
    streams = (f"match ip protocol 6 0xff match ip {side} {port} 0xffff" for port in ports)
    return Told((*streams, datagrams), ports[0])


def _without_line(body: ToxicBody) -> ToxicBody:
    own = {name: value for name, value in body.attributes.items() if name != "link"}
    return msgspec.structs.replace(body, attributes=own)


def toxiproxy_of(service: Service) -> Toxiproxy:
    """Return the Toxiproxy that a service runs."""
    host, port = service.published(8474)
    return Toxiproxy(f"{host}:{port}")


def _named(body: ToxicBody, whole: bool) -> ToxicBody:
    return body if whole else msgspec.structs.replace(body, name=f"{body.name}{DAMAGED}")
