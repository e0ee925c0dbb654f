"""Is a link of 5 ms that is not what it should be for a moment of a load noticed, whoever changed it and however?"""

import os
import shutil
import subprocess

import pytest
from replication_lab import experiments
from replication_lab.faults.toxic_calibration import exchange
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.question.question import Question
from replication_lab.witnesses.acts import LinkWitness
from replication_lab.workloads.inserts import Inserts
from replication_lab.world import clock

from tests.lab.sabotage import judgement_of

pytestmark = pytest.mark.long

LINK, TOXIC = "source-replica", "5ms-delay-up"
DELAY = ("-t", "exact_latency", "-a", "latency_us=2500")
SILENCE = ("-t", "timeout", "-a", "timeout=0")
LOAD = Inserts(seconds=6)


@pytest.fixture
def judged(loaded, tmp_path):
    """Return the judgement of a figure at 5 ms after two loads with interference in each, and all doubts."""
    asked = Question(topologies=["semisync"], vary={"clients": ["1", "2"]}, settings={"rtt": "5ms"})
    return lambda act: judgement_of(experiments.asked(asked), "throughput:clients=2", loaded, act, tmp_path, LOAD)


def toxiproxy(lab, action, name, *given):
    """Change a toxic of the link as another program does."""
    proxy = str(lab.service("toxiproxy").container.id)
    upstream = ("-u",) if action == "add" else ()
    command = ["docker", "exec", proxy, "/toxiproxy-cli", "toxic", action, "-n", name, *given, *upstream, LINK]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("seconds", [1, 3])
def test_a_latency_that_others_take_off_for_a_moment_is_unknown(judged, seconds):
    """The proxy lists who removed it, and when."""

    def taken_off(lab):
        toxiproxy(lab, "remove", TOXIC)
        clock.pause(seconds)
        toxiproxy(lab, "add", TOXIC, *DELAY)

    judgement, doubts = judged(taken_off)

    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{LinkWitness.obligation}: at " in doubts
    assert f"DELETE /proxies/{LINK}/toxics/{TOXIC}" in doubts


@pytest.mark.parametrize("seconds", [1, 3])
def test_a_black_hole_for_a_moment_is_unknown(judged, seconds):
    """Commits wait meanwhile, and semi-sync's timeout is longer."""

    def silenced(lab):
        toxiproxy(lab, "add", "silence", *SILENCE)
        clock.pause(seconds)
        toxiproxy(lab, "remove", "silence")

    judgement, doubts = judged(silenced)

    assert judgement.verdict is Verdict.UNKNOWN
    assert f"{LinkWitness.obligation}: at " in doubts and f"POST /proxies/{LINK}/toxics" in doubts


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("iptables"), reason="packet rules of the host need root")
@pytest.mark.parametrize("seconds", [1, 3])
def test_packets_that_the_host_drops_for_a_moment_are_missed(judged, seconds):
    """No program in a container changed a rule, and the proxy has no new toxic: the round trips tell."""

    def dropped(lab):
        [proxy], [source] = (lab.service(name).addresses() for name in ("toxiproxy", "source"))
        rule = ("DOCKER-USER", "-s", proxy, "-d", source, "-j", "DROP")
        subprocess.run(["iptables", "-w", "-I", *rule], check=True)
        try:
            clock.pause(seconds)
        finally:
            subprocess.run(["iptables", "-w", "-D", *rule], check=True)

    judgement, doubts = judged(dropped)

    assert judgement.verdict is Verdict.UNKNOWN
    # After three seconds the pings' connection is lost; a load that was interrupted for one does not count.
    assert "no round trip completed" in doubts if seconds == 3 else judgement.rounds == 0, (doubts, judgement)


def test_a_latency_that_is_missing_for_two_seconds_is_felt_by_the_load(judged):
    """Its round trips tell, also if this program itself changed the link."""

    def taken_off(lab):
        link = lab.link(LINK)
        had = link.toxics()
        exchange(link, [])
        clock.pause(2)
        exchange(link, had)

    judgement, doubts = judged(taken_off)

    assert judgement.verdict is Verdict.UNKNOWN
    assert "requested 5 ms on source-replica, but for " in doubts
    assert "% of the load the round trip was shorter than 4.50 ms" in doubts


def test_without_interference_no_link_is_doubted(judged):
    """The counter-check; a slow moment of the machine is no change of a link."""
    _, doubts = judged(lambda lab: None)

    assert LinkWitness.obligation not in doubts and "shorter than" not in doubts
