"""Every file of toxics/ does to a real link what it says, and taking it off leaves the link as it was."""

import json
import re
from contextlib import closing
from dataclasses import replace

import pytest
from msgspec import structs
from replication_lab.faults.link_proof import realised, realised_rate
from replication_lab.faults.toxic_calibration import calibrated, clear, put
from replication_lab.lab.status import called
from replication_lab.probes.round_trip import ANSWER_SECONDS, RoundTrip
from replication_lab.world import catalogue
from replication_lab.world.clock import wait_until
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica

from tests.traffic import bytes_through

LINK = "source-replica"
# As long as a busy machine may spoil one measurement after the other.
CORRECTED_SECONDS = 180


@pytest.fixture
def probe(loaded):
    """Yield round trips across the link, connected while it is bare; the link is bare again afterwards."""
    with closing(RoundTrip(loaded.link(LINK))) as probe:
        yield probe
    clear(loaded.link(LINK))


@pytest.mark.parametrize(
    "toxic",
    [
        "1ms",
        "5ms",
        "wan-85ms",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("2ms", "10ms", "20ms", "300ms")),
    ],
)
def test_a_latency_is_realised_within_a_twentieth_or_a_fifth_of_a_millisecond(loaded, probe, toxic):
    """Calibrated against what is measured, again where the machine was busy meanwhile, and gone at once."""
    assert loaded.link(LINK).latency_step_ms < 1
    asked = catalogue.toxic(toxic)

    def is_realised():
        calibrated(loaded.link(LINK), asked, probe)
        return abs(probe.typical(9) - asked.round_trip_ms) <= max(0.2, 0.05 * asked.round_trip_ms)

    wait_until(is_realised, f"{asked.round_trip_ms} ms", CORRECTED_SECONDS)
    slowed = probe.typical(20)
    clear(loaded.link(LINK))
    wait_until(lambda: min(probe.pings(20)) < slowed - asked.round_trip_ms / 3, "the bare link", CORRECTED_SECONDS)


def test_jitter_spreads_round_trips_around_its_latency(loaded, probe):
    """They differ from each other by more than the proxy does, and stay within what the file says."""
    asked = catalogue.toxic("jitter")
    put(loaded.link(LINK), asked)

    trips = probe.pings(20)

    assert max(trips) - min(trips) > 3
    assert asked.round_trip_ms - asked.jitter_ms - 1 <= min(trips)


def test_a_lan_is_the_bare_proxy(loaded, probe):
    """No toxic, a round trip far below a WAN's, also where every ping waits for a CPU."""
    put(loaded.link(LINK), catalogue.toxic("lan"))

    assert [] == loaded.link(LINK).toxics()
    assert min(probe.pings()) < catalogue.toxic("wan-85ms").round_trip_ms / 2


def test_a_black_hole_answers_nothing_while_its_connections_stay(loaded, probe):
    """The replica still believes that it is connected; that is the danger of it."""
    put(loaded.link(LINK), catalogue.toxic("black-hole"))

    with pytest.raises(TimeoutError):
        probe.answer_within(0.5)
    # By then the connection of the first question has ended, without an answer.
    with pytest.raises(TimeoutError):
        probe.answer_within(2 * ANSWER_SECONDS)
    assert Replica(loaded.node("replica").server()).status().connected


def test_a_reset_ends_connections(loaded, probe):
    """The probe's own connection is one of them."""
    put(loaded.link(LINK), catalogue.toxic("reset"))

    assert probe.typical() is None


# A busy machine carries less than the line would.
@pytest.mark.alone
def test_all_connections_of_a_slow_line_carry_together_what_its_file_says(loaded, probe):
    """Three at once carry 12 500 KB/s in each direction, within a tenth, and one of them not more."""
    asked = catalogue.toxic("slow-100mbit")
    wait_until(lambda: probe.kilobytes_per_second(8_000) > 2 * asked.rate_kbps, "a fast link")
    put(loaded.link(LINK), asked)

    wait_until(lambda: realised_rate(asked, probe)[1], f"{asked.rate_kbps} KB/s", CORRECTED_SECONDS)
    assert probe.kilobytes_per_second(8_000) <= 1.1 * asked.rate_kbps


def test_a_rate_of_each_connection_is_seen_not_to_be_that_of_the_link(loaded, probe):
    """Sabotage: Toxiproxy's own toxics under the same names. Three connections carry more than the link should."""
    asked = catalogue.toxic("20mbit")
    each = replace(asked, bodies=tuple(structs.replace(body, type="bandwidth") for body in asked.bodies))
    put(loaded.link(LINK), each)
    said, proved = realised_rate(asked, probe)

    assert not proved
    # A busy machine may carry less than three lines would in one of the directions.
    assert max(map(float, re.findall(r"([\d.]+) KB/s (?:down|up)", said))) > 1.5 * asked.rate_kbps, said


def test_the_replica_is_fed_through_the_link(loaded):
    """The bytes of a written row are counted by the proxy: nothing bypasses it."""
    source, link = loaded.node("source").server(), loaded.link(LINK)
    before = bytes_through(link)

    source.execute("CREATE TABLE lab.big (body LONGTEXT)", "INSERT INTO lab.big VALUES (REPEAT('x', 1000000))")
    replica = loaded.node("replica").server()
    Replica(replica).wait_for(BinaryLog(source).position())
    # Toxiproxy counts a connection's bytes when it ends.
    Replica(replica).stop()
    wait_until(lambda: bytes_through(link) - before > 1_000_000, "a megabyte through the link")

    Replica(replica).start()


@pytest.mark.usefixtures("probe")
def test_lost_packets_are_counted_and_tcp_sends_them_again(loaded, command):
    """The command proves the share; then real data of the replica are lost on their way and arrive nevertheless."""
    done = command("link", "set", LINK, "loss=5%", "--lab", loaded.name, "--json")
    found = json.loads(done.stdout)
    link, (down, _) = loaded.link(LINK), catalogue.toxic("loss=5%").of_packets
    loaded.refresh()
    before, sent_again = link.packets(down), retransmitted(loaded)
    source, replica = loaded.node("source").server(), loaded.node("replica").server()
    source.execute("CREATE TABLE lab.lossy (body LONGTEXT)")
    for _ in range(8):
        source.execute("INSERT INTO lab.lossy VALUES (REPEAT('x', 1000000))")
    Replica(replica).wait_for(BinaryLog(source).position())
    carried = link.packets(down).since(before)

    assert (done.returncode, found["ok"]) == (0, True), done.stdout + done.stderr
    assert carried.seen > 100 and carried.hit > 0 and retransmitted(loaded) > sent_again
    assert called([toxic.name for toxic in link.toxics()]) == ["loss=5%"]


@pytest.mark.parametrize(
    ("done", "doubt"),
    [
        ("iptables -t raw -R LAB-IN-21002 2 -m statistic --mode random --probability 0 -j DROP", "up 0 % lost (0 of"),
        ("iptables -t raw -F LAB-IN-21002", "up the rule that loses packets was removed"),
        ("ip -4 rule del priority 76", "down the rule that loses packets was removed"),
    ],
)
def test_a_rule_that_is_changed_behind_the_labs_back_is_seen(loaded, probe, done, doubt):
    """Sabotage: its probability is 0, it is gone, or marked packets go on to the replica."""
    link, asked = loaded.link(LINK), catalogue.toxic("loss=5%")
    put(link, asked)
    # Beside other tests a round trip, or a thousand packets, may fail once.
    wait_until(lambda: realised(asked, probe)[1], "the loss as requested, before the sabotage", 30)
    loaded.refresh()
    loaded.service("toxiproxy-packets").run("sh", "-c", done)
    said, proved = realised(asked, probe)

    assert not proved and doubt in said
    put(link, catalogue.toxic("lan"))
    loaded.service("toxiproxy-packets").run("sh", "-c", "! iptables-save | grep -- '-j LAB-[IO]'")


def test_what_needs_netem_is_done_or_refused_by_name_and_release(loaded, command, docker):
    """On a host without it nothing is put on the link; with it, the counters prove it."""
    done = command("link", "set", LINK, "40ms+duplicate=2%+reorder=5%", "--lab", loaded.name)
    has = [toxic.name for toxic in loaded.link(LINK).toxics()]
    refused = f"the kernel {docker.info()['KernelVersion']} lacks sch_netem (CONFIG_NET_SCH_NETEM)"

    assert (done.returncode == 0 and has) or (refused in done.stderr and has == []), done.stdout + done.stderr
    clear(loaded.link(LINK))


def retransmitted(lab) -> int:
    """Return the segments that the proxy has sent again."""
    return int(lab.service("toxiproxy-packets").run("nstat", "-asz", "TcpRetransSegs").split()[-2])


@pytest.mark.parametrize(
    "condition",
    [
        "40ms±5ms",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("40ms,down=10ms,up=30ms", "40ms+20mbit")),
    ],
)
def test_a_condition_by_number_is_proved_by_the_command(loaded, command, probe, condition):
    """`lab link set` ends well only if pings, their spread and the rate are as written; `none` takes it off again."""
    done = command("link", "set", LINK, condition, "--lab", loaded.name, "--json")
    found = json.loads(done.stdout)

    assert (done.returncode, found["ok"]) == (0, True), done.stdout + done.stderr
    assert "requested 40 ms" in found["found"]
    assert "40ms+20mbit" != condition or "KB/s up (requested 2500 KB/s) for all connections together" in found["found"]
    assert called([toxic.name for toxic in loaded.link(LINK).toxics()]) == [catalogue.toxic(condition).name]

    assert 0 == command("link", "set", LINK, "none", "--lab", loaded.name).returncode
    assert [] == loaded.link(LINK).toxics()
