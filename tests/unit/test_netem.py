"""Does netem duplicate and reorder the packets of a link, and is what it does read from the kernel?"""

import json
import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from replication_lab.faults.toxic_calibration import clear
from replication_lab.model.lab.packets import Packets
from replication_lab.model.lab.topology import Link
from replication_lab.model.lab.toxic import PACKET_DUPLICATE, PACKET_REORDER, ToxicBody
from replication_lab.world import catalogue
from replication_lab.world.docker.containers import LabContainers
from replication_lab.world.docker.service import Service
from replication_lab.world.packets import netem, packet_ability
from replication_lab.world.packets.link import RunningLink
from replication_lab.world.packets.namespace import Beside, Guest, Refused
from replication_lab.world.packets.netem import NetemEffect, Sender, Told, parsed, words

TWICE = ToxicBody("duplicate=2%-duplicate-up", PACKET_DUPLICATE, "upstream", {"percent": 2})
LATE = ToxicBody("reorder=5%-reorder-up", PACKET_REORDER, "upstream", {"percent": 5})


# --- the kernel -------------------------------------------------------------------------------------------------------


def filters(band: int, hits: list[int], counts: bool = True) -> list[dict]:
    """Return what tc shows of the filters of a band."""
    found: list[dict] = [{"protocol": "ip", "pref": band, "kind": "u32", "chain": 0}]
    for hit in hits:
        own = {"fh": "800::800", "flowid": f"4c:{band:x}", **({"success": hit} if counts else {})}
        found.append({"protocol": "ip", "pref": band, "kind": "u32", "options": own})
    return found


def queues(band: int, options: dict, requeues: int = 0) -> list[dict]:
    return [
        {"kind": "prio", "handle": "4c:", "root": True, "requeues": 0},
        {"kind": "netem", "handle": "8001:", "parent": f"4c:{band:x}", "options": options, "requeues": requeues},
        {"kind": "clsact", "handle": "ffff:"},
    ]


BOTH = {"delay": {"delay": 0.01}, "reorder": {"reorder": 0.95}, "duplicate": {"duplicate": 0.02}, "gap": 1}


def shown(found: list[dict], into: list[dict], before: list[dict], band: int = 2) -> str:
    """Return what `show` prints of two effects on one device."""
    lines = [NetemEffect(band, "a-b", each).line() for each in (TWICE, LATE)]
    return "\n".join([*lines, "device eth0", *map(json.dumps, (before, into, found))])


KERNEL = shown(queues(2, BOTH, 4202), filters(2, [414, 4000]), filters(2, [400, 3926]))


class FakeNamespace:
    """A namespace that keeps what was put, and shows it as the kernel would: every packet as it was asked for."""

    def __init__(self, text=""):
        self.text, self.scripts, self.lacks = text, [], ""

    def run(self, script):
        self.scripts.append(script.removeprefix(netem.STEPS).strip())
        if self.lacks and "\nput " in script:
            raise Refused(self.lacks)
        kept = re.findall(r"'(\d+ \S+ \S+ packet_[^']*)'", script)
        told = re.search(r"^put (\d+) '([^']*)' (.*)$", script, re.MULTILINE)
        self.text = "\n".join([*kept, "device eth0"]) if kept else ""
        if told and kept:
            band, matches = int(told[1]), len(re.findall("'", told[3])) // 2
            device = (filters(band, [0] * matches), filters(band, [0] * matches), queues(band, BOTH))
            self.text = "\n".join([self.text, *map(json.dumps, device)])
        return ""

    def run_if_used(self, script):
        self.scripts.append(script.removeprefix(netem.STEPS).strip())
        return self.text


def a_sender(text="", matches=("match one", "match two")):
    return Sender(FakeNamespace(text), "a-b", "upstream", lambda: Told(matches, 21002))


def test_the_kernels_counters_are_read():
    """A duplicate passes the filters once more than their twins; what netem did not delay counts as requeued."""
    sender = a_sender(KERNEL)

    assert sender.bodies() == [(TWICE, True), (LATE, True)]
    assert sender.packets(TWICE) == Packets(4326, 88)
    assert sender.packets(LATE) == Packets(4414, 212)
    assert parsed("").effects == ()


@pytest.mark.parametrize(
    "text",
    [
        shown(queues(2, BOTH)[1:], filters(2, [1, 1]), filters(2, [1, 1])),
        shown([queues(2, BOTH)[0]], filters(2, [1, 1]), filters(2, [1, 1])),
        shown(queues(3, BOTH), filters(2, [1, 1]), filters(2, [1, 1])),
        shown(queues(2, BOTH), filters(2, [1]), filters(2, [1, 1])),
        shown(queues(2, BOTH), filters(2, [1, 1]), []),
        "\n".join(KERNEL.splitlines()[:4]),
        "\n".join(KERNEL.splitlines()[:2]),
    ],
    ids=["no root", "no netem", "another band", "a filter less", "no twins", "no clsact", "no device"],
)
def test_an_effect_that_lacks_any_part_is_none(text):
    """Sabotage: somebody removed a queue or a filter. The state still has it, and it proves nothing."""
    sender = a_sender(text)

    assert sender.packets(TWICE) is None and sender.packets(LATE) is None
    assert [whole for _, whole in sender.bodies()] == [False, False]


@pytest.mark.parametrize(
    ("options", "twice", "late"),
    [
        ({**BOTH, "duplicate": {"duplicate": 0.5}}, 50, 5),
        ({**BOTH, "reorder": {"reorder": 1.0}}, 2, 0),
        ({**BOTH, "delay": {"delay": 0.0}}, 2, 0),
        ({}, 0, 0),
    ],
)
def test_a_netem_that_was_changed_is_read_as_it_is(options, twice, late):
    """Sabotage: its shares are the kernel's, not the ones that the lab asked for."""
    sender = a_sender(shown(queues(2, options), filters(2, [1, 1]), filters(2, [1, 1])))

    assert [body.attributes["percent"] for body, _ in sender.bodies()] == [twice, late]


def test_filters_without_counters_prove_nothing():
    """A kernel without CONFIG_CLS_U32_PERF counts nothing; the trial refuses it, and so does the proof."""
    found = a_sender(shown(queues(2, BOTH), filters(2, [1, 1], counts=False), filters(2, [1, 1], counts=False)))

    assert "too few" in found.packets(TWICE).why_not(2, PACKET_DUPLICATE)


# --- what is put ------------------------------------------------------------------------------------------------------


def test_both_effects_of_a_direction_share_a_netem():
    """The second is added to the first; the last that goes gives the device its own queue back."""
    sender = a_sender()
    sender.put(TWICE)
    sender.put(LATE)

    assert [body for body, _ in sender.bodies()] == [TWICE, LATE]
    put = [script.splitlines() for script in sender.namespace.scripts if script.startswith("put")]
    assert put[0][0] == "put 2 'duplicate 2%' 'match one' 'match two'"
    assert put[1][0].startswith("put 2 'delay 10ms reorder 95% duplicate 2%'")
    sender.remove(TWICE.name)
    sender.remove(LATE.name)
    assert sender.bodies() == [] and sender.namespace.scripts[-2] == "drop 2\nremember"


def test_an_effect_replaces_the_one_of_its_kind():
    """One netem has one share of each."""
    sender = a_sender()
    sender.put(TWICE)
    sender.put(replace(TWICE, name="other", attributes={"percent": 7}))

    assert [body.name for body, _ in sender.bodies()] == ["other"]


def test_another_link_gets_a_band_of_its_own():
    """There are 15; the next one is refused."""
    full = "\n".join(NetemEffect(band, f"l{band}", TWICE).line() for band in range(2, 17))

    sender = a_sender(full.splitlines()[0])
    sender.put(LATE)
    assert any(script.startswith("put 3 ") for script in sender.namespace.scripts)


def test_more_links_than_bands_are_refused(refused):
    """The kernel's queue has 16 bands, and the first is for all other packets."""
    full = "\n".join(NetemEffect(band, f"l{band}", TWICE).line() for band in range(2, 17))

    assert "15 directions of links already" in refused(a_sender(full).put, LATE).found


def test_a_kernel_without_netem_is_refused_by_name_and_release(refused):
    """And what was tried is removed."""
    sender = a_sender()
    sender.namespace.lacks = "Error: kind is unknown.\nlacks 6.18.44 sch_netem (CONFIG_NET_SCH_NETEM)\n"
    error = refused(sender.put, LATE)

    assert "packets cannot be reordered: the kernel 6.18.44 lacks sch_netem (CONFIG_NET_SCH_NETEM)" in error.found
    assert sender.namespace.scripts[-1].startswith("drop 2")


def test_each_step_of_the_script_names_what_it_needs():
    """The text that the error is made from."""
    for feature in ("SCH_NETEM", "SCH_PRIO", "SCH_INGRESS", "CLS_U32", "CLS_U32_PERF"):
        assert re.search(rf"lacks '.*\(CONFIG_(NET_)?{feature}\)'", netem.STEPS)
    assert words([NetemEffect(2, "a", LATE)]) == "delay 10ms reorder 95%"


# --- where ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tried(monkeypatch):
    """Return the scripts that were tried on this host, whose kernel has everything."""
    scripts = []
    monkeypatch.setattr(netem, "refused_here", lambda script: scripts.append(script) or "")
    return scripts


@pytest.mark.parametrize(
    ("topology", "target", "toxic", "trials"),
    [
        ("semisync", "source-replica", "duplicate=1%", 1),
        ("semisync", "source-replica", "40ms", 0),
        ("drbd", "node1-node2", "reorder=1%", 0),
        ("drbd", "node1", "reorder=1%", 0),
        ("drbd-ha", "node1-node2", "reorder=1%", 0),
        ("drbd-ha", "node1-node2-ring", "reorder=1%", 1),
        ("drbd-ha", "node1", "reorder=1%", 1),
        ("semisync", "made-by-failover", "reorder=1%", 1),
    ],
)
def test_only_what_this_hosts_kernel_has_to_do_is_tried(tried, topology, target, toxic, trials):
    """Between the machines of a replicated disk their own kernel does it."""
    packet_ability.refuse_unable([(target, catalogue.toxic(toxic))], [catalogue.topology(topology)])

    assert len(tried) == trials


def test_a_host_that_cannot_is_refused_before_anything_starts(monkeypatch, refused):
    """By the name of the feature."""
    monkeypatch.setattr(netem, "refused_here", lambda _: "unknown\nlacks 6.1 sch_netem (CONFIG_NET_SCH_NETEM)")
    asked = [("source-replica", catalogue.toxic("40ms+duplicate=1%"))]
    error = refused(packet_ability.refuse_unable, asked, [catalogue.topology("semisync")])

    assert "packets cannot be duplicated: the kernel 6.1 lacks sch_netem" in error.found


def link_of(topology: str, name: str, attached: bool = False) -> RunningLink:
    services = partial(Service, LabContainers("lab-a"))
    nodes: Any = services
    link = RunningLink(catalogue.topology(topology).link(name), services("toxiproxy"), nodes, not attached)
    link.__dict__["toxiproxy"] = SimpleNamespace(proxies=lambda: {name: {"listen": "[::]:21002"}})
    return link


@pytest.mark.parametrize(
    ("stream", "node", "peer"), [("upstream", "node1", "169.254.78.2"), ("downstream", "node2", "169.254.78.1")]
)
def test_between_machines_the_sending_guest_does_it(stream, node, peer):
    """What leaves for the peer's address; the proxy receives it."""
    link = link_of("drbd", "node1-node2")
    found = link._sender(stream)

    assert isinstance(found.namespace, Guest) and found.namespace._machine.name == node
    assert found.told() == Told((f"match ip dst {peer}/32",), 9, peer)
    end: Any = link._receiver(stream)
    assert end.service == "toxiproxy-packets"


@pytest.mark.parametrize(
    ("stream", "attached", "service", "match", "receives"),
    [
        ("upstream", False, "replica-packets", "dport 21002", "toxiproxy-packets"),
        ("downstream", False, "toxiproxy-packets", "sport 21002", "replica-packets"),
        ("upstream", True, "toxiproxy-packets", "dport 3306", None),
        ("downstream", True, "toxiproxy-packets", "sport 21002", None),
    ],
)
def test_between_containers_the_sender_does_it(stream, attached, service, match, receives):
    """What a project's own container sends is taken on its way from the proxy."""
    link = link_of("semisync", "source-replica", attached)
    found = link._sender(stream)
    end: Any = link._receiver(stream)

    assert isinstance(found.namespace, Beside) and found.namespace.service == service
    assert match in found.told().matches[0] and (end.service if end else None) == receives


def test_a_link_keeps_its_effects_apart_from_toxiproxy(monkeypatch):
    """Its toxics name them, those that lack a part as damaged; `clear` removes them."""
    sender = a_sender()
    proxies = {"a": {"listen": "[::]:21002"}}
    toxiproxy = SimpleNamespace(proxies=lambda: proxies, toxics=lambda _proxy: [])
    others = a_sender()
    monkeypatch.setattr(RunningLink, "_sender", lambda _link, stream: sender if stream == "upstream" else others)
    monkeypatch.setattr(Beside, "run_if_used", lambda *_: "")
    link = RunningLink(Link("a", "[::]:21002", "target:3306", "source", "target", ("a",)), None, lambda _: None)
    link.__dict__["toxiproxy"] = toxiproxy
    link.add(LATE)

    assert [found.name for found in link.toxics()] == [LATE.name] and link.carries({LATE.name})
    link.add(TWICE)
    sender.namespace.text = "\n".join(sender.namespace.text.splitlines()[:3])
    damaged = [f"{LATE.name} (damaged)", f"{TWICE.name} (damaged)"]
    assert [found.name for found in link.toxics()] == damaged and not link.carries({LATE.name})
    # The removal of the first puts the second back whole.
    clear(link)
    assert link.toxics() == []
