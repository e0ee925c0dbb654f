"""Is a loss of packets made by the kernel's rules, proved by their counters, and never by anything else?"""

from math import comb
from subprocess import run
from types import SimpleNamespace

import pytest
from msgspec.structs import asdict, replace
from replication_lab.faults.link_proof import realised, realised_packets
from replication_lab.faults.toxic_calibration import calibrated, clear, exchange
from replication_lab.faults.toxic_watch import toxic_on
from replication_lab.lab.status import called
from replication_lab.model.lab.condition import condition_of_body, parse_condition
from replication_lab.model.lab.packets import Packets
from replication_lab.model.lab.topology import Link
from replication_lab.report import evidence
from replication_lab.report.rows import FaultRow
from replication_lab.runner import drill_set
from replication_lab.world import catalogue
from replication_lab.world.docker import engine
from replication_lab.world.packets import link as running
from replication_lab.world.packets.link import RunningLink
from replication_lab.world.packets.namespace import Beside, Guest, impossible
from replication_lab.world.packets.packet_ability import refuse_unable
from replication_lab.world.packets.packet_loss import LossChain, PacketRules, Ports, parsed, put_script

from tests.fakes.link import FakeLink, FakeRoundTrip

UP, DOWN = parse_condition("loss=2%").toxic().of_packets[::-1]
ASKED = catalogue.toxic("40ms+loss=2%")
# What `show` prints where both directions are lost.
CHANCE = "-m statistic --mode random --probability 0.02000000002"
KERNEL = f"""*raw
:LAB-IN-21002 - [0:0]
:LAB-MARKED - [0:0]
[16216:693156] -A PREROUTING -i lo -j LAB-MARKED
[85:6672] -A PREROUTING -p tcp -m multiport --dports 21002 -j LAB-IN-21002
[8119:235451] -A PREROUTING -p udp -m udp --dport 21002 -j LAB-IN-21002
[8204:242123] -A LAB-IN-21002 -m comment --comment "upstream loss=2%-loss-up"
[179:5214] -A LAB-IN-21002 {CHANCE} -j DROP
[140:4060] -A LAB-MARKED -m mark --mark 0x4c00520a -j DROP
*mangle
:LAB-OUT-21002 - [0:0]
[82:11553] -A OUTPUT -p tcp -m multiport --sports 21002 -j LAB-OUT-21002
[8259:239511] -A OUTPUT -p udp -m udp --dport 21002 -j LAB-OUT-21002
[8341:251064] -A LAB-OUT-21002 -m comment --comment "downstream loss=2%-loss-down"
[141:4060] -A LAB-OUT-21002 {CHANCE} -j MARK --set-xmark 0x4c00520a/0xffffffff
192.0.2.1 dev lo table 76 src 172.19.0.4 mark 0x4c000000 uid 0
"""


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "ways"),
    [
        ("loss=2%", "loss=2%", ["down", "up"]),
        ("loss=2.50%", "loss=2.5%", ["down", "up"]),
        ("loss=2%,down", "loss=2%↓", ["down"]),
        ("loss=2%↑", "loss=2%↑", ["up"]),
        ("loss=0.1%+20mbit+40ms", "40ms+20mbit+loss=0.1%", ["down", "up"]),
        ("40ms,down=10ms,up=30ms+loss=50%,up", "40ms↓10ms↑30ms+loss=50%↑", ["up"]),
    ],
)
def test_a_loss_is_read_and_has_one_shortest_spelling(text, name, ways):
    """The names of its bodies are ASCII and lead back to it."""
    toxic = parse_condition(text).toxic()

    assert toxic.name == name and toxic == parse_condition(name).toxic()
    assert [body.name.rpartition("-")[2] for body in toxic.of_packets] == ways
    assert all(body.name.isascii() and condition_of_body(body.name).name == name for body in toxic.bodies)
    assert called([body.name for body in toxic.bodies]) == [name]


def test_the_loss_is_no_part_of_what_toxiproxy_does():
    """Round trips prove the rest."""
    assert ASKED.is_latency and ASKED.is_measured and ASKED.of_streams.of_packets == ()
    assert "2 % of the packets are lost in each direction" in ASKED.about


# --- what the counters prove ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "dropped", "why"),
    [
        (5000, 100, ""),
        (1000, 20, ""),
        (500, 10, "500 packets are too few to verify a loss of 2 %; about 2000 are needed"),
        (0, 0, "0 packets are too few"),
        (3, 3, "not 2 %"),
        (4000, 0, "0 % lost (0 of 4000 packets, 99.99 % interval 0–0.25 %), not 2 %"),
        (4000, 200, "5 % lost (200 of 4000 packets, 99.99 % interval 3.8–6.5 %), not 2 %"),
        (100, 0, "100 packets are too few"),
        (-5, 0, "the counters were reset"),
        (5, 6, "the counters were reset"),
    ],
)
def test_the_share_is_proved_by_enough_packets_only(seen, dropped, why):
    """An interval that holds the request and much else proves nothing."""
    found = Packets(seen, dropped).why_not(2)

    assert found == why if not why else why in found


def of_1000(lost, share):
    return comb(1000, lost) * share**lost * (1 - share) ** (1000 - lost)


def test_the_interval_is_that_of_the_binomial_distribution():
    """At each end, what was counted or more extreme has a probability of 0.005 %."""
    low, high = (share / 100 for share in Packets(1000, 20).interval())

    assert sum(of_1000(lost, high) for lost in range(21)) == pytest.approx(0.00005)
    assert 1 - sum(of_1000(lost, low) for lost in range(20)) == pytest.approx(0.00005)
    assert Packets(10, 0).interval()[0] == 0 and Packets(10, 10).interval()[1] == 100


# --- the rules --------------------------------------------------------------------------------------------------------


def test_the_kernels_rules_are_read_with_their_counters():
    """What came in is dropped by chance; of what went out, what was marked counts only when it was dropped."""
    assert parsed(KERNEL) == {
        "LAB-IN-21002": LossChain(UP, Packets(8204, 179), complete=True),
        "LAB-OUT-21002": LossChain(DOWN, Packets(8341, 140), complete=True),
    }
    assert parsed("") == {}


@pytest.mark.parametrize(
    ("gone", "chain"),
    [
        ("-A PREROUTING -i lo -j LAB-MARKED", "LAB-OUT-21002"),
        ("-A PREROUTING -p tcp", "LAB-IN-21002"),
        ("-A OUTPUT -p tcp", "LAB-OUT-21002"),
        ("-A LAB-IN-21002 -m statistic", "LAB-IN-21002"),
        ("-A LAB-OUT-21002 -m statistic", "LAB-OUT-21002"),
        ("--mark 0x4c00520a -j DROP", "LAB-OUT-21002"),
        ("192.0.2.1 dev lo", "LAB-OUT-21002"),
    ],
)
def test_a_rule_that_lacks_any_part_is_no_loss(gone, chain):
    """Somebody removed one line: the chain is there and loses nothing."""
    kept = "\n".join(line for line in KERNEL.splitlines() if gone not in line)

    assert not parsed(kept)[chain].complete


def test_a_rule_whose_chance_was_changed_is_read_as_it_is():
    """Its percent is the kernel's, not the one that the lab asked for."""
    changed = KERNEL.replace("0.02000000002 -j DROP", "0.00000000000 -j DROP")

    assert parsed(changed)["LAB-IN-21002"].body.attributes == {"percent": 0}


def ran(script, fails=""):
    """Return what a script calls of the kernel's programs, and what it says; a call with `fails` in it fails."""
    program = f'{{ echo "${{FUNCNAME[0]}} $*"; [[ -z "{fails}" || "$*" != *"{fails}"* ]]; }}'
    fakes = f'ip() {program}\niptables() {{ [[ "$*" != *"-w -t raw -D"* ]] || return 1; iptables_ "$@"; }}'
    done = run(["bash", "-c", f"{fakes}\niptables_() {program}\n{script}"], capture_output=True, text=True, check=False)
    return done.stdout.replace("iptables_ -w ", ""), done.stderr


def test_a_rule_covers_all_ports_and_says_what_a_step_lacks():
    """Four ports of a cluster's link in one rule; each step of it names the kernel's feature."""
    script = put_script(UP, Ports(into=(41267, 41268)))
    calls, _ = ran(script)

    assert "-p tcp -m multiport --dports 41267,41268 -j LAB-IN-41267\n" in calls
    assert "--probability 0.020000 -j DROP\n" in calls and "LAB-OUT" not in calls
    assert "xt_statistic (CONFIG_NETFILTER_XT_MATCH_STATISTIC)" in ran(script, fails="--probability")[1]
    assert "-t raw -A LAB-MARKED -m mark --mark 0x4c00a133 -j DROP\n" in ran(put_script(DOWN, Ports(out=(41267,))))[0]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("no match\nlacks 6.1.0 xt_statistic (CONFIG_X)\n", "kernel 6.1.0 lacks xt_statistic (CONFIG_X) (no match)"),
        ("iptables: Permission denied\n", "its rule was refused: iptables: Permission denied"),
        ("", "no message"),
    ],
)
def test_a_kernel_that_cannot_is_refused_by_the_missing_feature(said, why):
    """The step that failed names it; anything else is passed on."""
    assert why in impossible("lost", said).found


def test_nothing_is_tried_where_no_packet_is_lost(monkeypatch):
    """A lab without a loss needs neither the image nor the kernel's feature."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("tried"))
    refuse_unable([("a-b", catalogue.toxic("40ms")), ("a-b", catalogue.toxic("wan-85ms"))], [])


def test_the_conditions_of_a_drills_faults_are_known_before_it_starts():
    """They are tried, too; `none` is no condition."""
    specs = [
        SimpleNamespace(settings=each, targets=["a-b"])
        for each in ({"toxic": "loss=2%"}, {"condition": "none"}, {"ms": 1})
    ]

    assert drill_set.toxics([SimpleNamespace(fault_specs=specs)]) == [("a-b", catalogue.toxic("loss=2%"))]


# --- a link -----------------------------------------------------------------------------------------------------------


class FakeRules(PacketRules):
    """The rules of a kernel as a dict."""

    def __init__(self):
        self.rules: dict[str, LossChain] = {}
        self.sent: list[int] = []

    def read(self):
        return self.rules

    def put(self, body, ports):
        self.rules |= {chain: LossChain(body, Packets(10, 1), complete=True) for chain in ports.chains}

    def remove(self, ports):
        self.rules = {chain: rule for chain, rule in self.rules.items() if chain not in ports.chains}

    def burst(self, ports, count):
        self.sent += [*ports, count]


@pytest.fixture
def rules():
    return FakeRules()


@pytest.fixture
def link(monkeypatch, rules):
    """Return a link with two ports, and one that the far end dials, whose Toxiproxy has no toxic."""
    ports = {"a": 21002, "a-sql": 21003, "a-back": 21009}

    # Nothing else is asked of it.
    toxiproxy = SimpleNamespace(
        proxies=lambda: {name: {"listen": f"[::]:{port}"} for name, port in ports.items()}, toxics=lambda _proxy: []
    )
    monkeypatch.setattr(running, "PacketRules", lambda _namespace: rules)
    monkeypatch.setattr(Beside, "run_if_used", lambda *_: "")
    monkeypatch.setattr(Guest, "run_if_used", lambda *_: "")
    model = Link("a", "[::]:21002", "target:3306", "source", "target", tuple(ports))
    found = RunningLink(model, None, lambda _node: None)
    found.__dict__["toxiproxy"] = toxiproxy
    return found


def test_a_loss_goes_to_the_kernel_and_never_to_toxiproxy(link, rules):
    """What goes up comes in on the ports that this end dials, and goes out on the one that the far end dials."""
    link.add(UP)

    assert sorted(rules.rules) == ["LAB-IN-21002", "LAB-OUT-21009"]
    assert [each.name for each in link.toxics()] == [UP.name] and link.carries({UP.name})
    assert link.packets(UP) == Packets(20, 2)
    link.send_packets(UP, 7)
    assert rules.sent == [21002, 21009, 7]
    clear(link)
    assert (rules.rules, link.toxics()) == ({}, [])


@pytest.mark.parametrize("part", ["missing", "incomplete", "another"])
def test_a_loss_that_lacks_one_of_its_rules_is_not_on_the_link(link, rules, part):
    """Removed, damaged, or replaced by another condition's."""
    link.add(UP)
    body = replace(UP, name="other") if part == "another" else UP
    rules.rules["LAB-OUT-21009"] = LossChain(body, Packets(10, 1), complete=part != "incomplete")
    if part == "missing":
        del rules.rules["LAB-OUT-21009"]

    assert not link.carries({UP.name}) and link.packets(UP) is None
    assert [each.name.endswith(" (damaged)") for each in link.toxics()] == [True]
    clear(link)
    assert rules.rules == {}


# --- proofs and their sabotage ----------------------------------------------------------------------------------------


def lossy():
    found = FakeLink("source-replica")
    calibrated(found, ASKED, FakeRoundTrip(found))
    return found


def test_a_loss_that_acts_is_proved_beside_the_round_trip():
    """Both are told with what was asked."""
    said, proved = realised(ASKED, FakeRoundTrip(lossy()))

    assert proved and "requested 40 ms" in said
    assert "down 2 % lost (" in said and "up 2 % lost (" in said and said.endswith("(requested 2 %)")


@pytest.mark.parametrize("percent", [0, 0.5, 8])
def test_a_rule_with_another_probability_is_seen(percent):
    """Sabotage: the rule is there under its name, and drops another share of the packets, or none."""
    found = lossy()
    found.loses = percent
    said, proved = realised(ASKED, FakeRoundTrip(found))

    assert not proved and "not 2 %" in said


def test_a_rule_that_was_removed_is_seen():
    """Sabotage: behind the lab's back."""
    found = lossy()
    found.remove(ASKED.of_packets[1].name)

    assert realised_packets(ASKED, found)[0].startswith("down 2 % lost")
    assert realised_packets(ASKED, found)[1] is False


def during_a_load(meanwhile=lambda _: None, traffic=5000):
    link = FakeLink("source-replica")
    link.traffic = traffic
    with toxic_on(link, ASKED, ASKED, FakeRoundTrip(link)) as acting:
        meanwhile(link)
    return acting.faults()


def test_a_load_is_recorded_with_what_was_asked_and_measured():
    """The round trip by itself, and each direction's packets with interval and number."""
    trips, down, up = during_a_load()

    assert (trips.unit, trips.seen, trips.asked) == ("ms", True, 40)
    assert (down.unit, up.unit, down.asked) == ("% of packets down", "% of packets up", 2)
    assert down.seen and down.during.n == 5000 and down.during.min < down.during.p50 == 2 < down.during.max


def remove_the_rule(link):
    link.remove(ASKED.of_packets[0].name)


@pytest.mark.parametrize(
    ("meanwhile", "traffic", "doubt"),
    [
        (remove_the_rule, 5000, "the rule that loses packets was removed during the load"),
        (lambda _: None, 200, "200 packets are too few to verify a loss of 2 %"),
        (lambda _: None, 0, "0 packets are too few"),
    ],
)
def test_a_load_without_the_loss_is_in_doubt(meanwhile, traffic, doubt):
    """Sabotage and a load that is too small: UNKNOWN, never green."""
    found = during_a_load(meanwhile, traffic)[1]

    assert not found.seen and doubt in found.doubt


def test_a_load_whose_rule_lost_nothing_is_in_doubt():
    """Sabotage: the probability was set to 0."""
    link = FakeLink("source-replica")
    link.loses = 0
    with toxic_on(link, ASKED, ASKED, FakeRoundTrip(link)) as acting:
        pass

    assert ["", "not 2 %", "not 2 %"] == [fault.why[-7:] for fault in acting.faults()]


@pytest.mark.parametrize("toxic", ["loss=2%", "40ms+loss=2%", "20mbit+loss=2%"])
@pytest.mark.parametrize("percent", [None, 0])
def test_a_drills_loss_is_proved_by_its_packets(conditioned, toxic, percent):
    """On top of what is there; with probability 0 it is not."""
    link = FakeLink("a-b")
    link.loses = percent
    fault = conditioned(link, toxic=toxic)
    fault.inject()

    assert [proof.ok for proof in fault.verify()] == [percent is None]


def test_another_loss_replaces_the_one_that_is_there():
    """In each direction; the direction that is no longer asked for is removed."""
    link = lossy()
    exchange(link, catalogue.toxic("40ms+loss=2%,up").bodies)

    assert [body.name for body in link.of_packets()] == ["40ms+loss=2%,up-loss-up"]


def test_a_drill_does_not_replace_the_loss_that_a_link_has(conditioned, refused):
    """Its recovery could not put it back."""
    fault = conditioned(lossy(), toxic="loss=5%,up")

    assert "already has a loss" in refused(fault.inject).found


def test_the_report_tells_losses_apart_from_round_trips():
    """A row of its own for each direction, outside the scale of milliseconds."""
    rows = [FaultRow(**asdict(fault), engine="e", case="c", round=1) for fault in during_a_load()]
    found = evidence.conditions(SimpleNamespace(faults=rows))
    scale = evidence.scale(found)

    assert [each.first.unit for each in found] == ["ms", "% of packets down", "% of packets up"]
    assert found[1].told.startswith("2 (")
    assert scale and evidence.picture(found[0], scale) and not evidence.picture(found[1], scale)
