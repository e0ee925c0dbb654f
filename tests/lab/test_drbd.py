"""A replicated disk of two machines: what is lost when one dies, how service moves, and how a split brain is ended."""

import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from replication_lab import replication
from replication_lab.faults.toxic_calibration import clear
from replication_lab.lab import status as views
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.statistics import interval_of_mean
from replication_lab.model.drill.evidence import View
from replication_lab.replication.kind import SILENT
from replication_lab.witnesses.told_changes import UNCHANGED
from replication_lab.world import clock
from replication_lab.world.machines import drbd

from tests.lab import machines
from tests.lab.conftest import things_of
from tests.lab.machines import HELD, cpu_seconds, cut, texts, two_machines, wait_until_seen, write, writers
from tests.lab.processes import check_no_password, processes_watched
from tests.lab.witnessed import proof_while

RATE_KIB = 4096
FILLING, FILL = "/run/lab/filling", "dd if=/dev/zero of=/var/lib/mysql/.filling bs=64K count=64 oflag=direct"
# As in the health check of compose/_parts.yaml: the time for which a machine may be unhealthy.
START_PERIOD_SECONDS = 180


@pytest.fixture(scope="module")
def pair(docker):
    """Start both machines and prove them."""
    with two_machines() as lab:
        yield lab


@pytest.fixture
def whole(pair):
    """Yield the pair connected and equal, before a test and after it, whichever machine serves."""
    drbd.wait_until_whole(pair)
    yield pair
    pair.refresh()
    for link in pair.topology.links:
        pair.link(link.name).enable()
        clear(pair.link(link.name))
    for peer in drbd.peers(pair).values():
        peer.tell("adjust")
    drbd.wait_until_whole(pair)


def test_a_killed_primary_loses_nothing_that_was_acknowledged(whole):
    """Killed in the middle of a load: the peer has every acknowledged row, serves, and takes the dead one back."""
    dying = drbd.primary(whole).node
    survivor, nodes = drbd.other(whole, dying).node, replication.of(whole)
    wait_until_seen(nodes, dying, "Primary, Connected")
    with writers(whole, dying) as acknowledged:
        whole.node(dying).kill()
        whole.refresh()
        assert nodes.looks()[dying] == SILENT
        replication.of(whole).take_over(survivor)

    assert set(acknowledged) <= texts(whole, survivor)
    write(whole, survivor)
    whole.node(dying).start_again()
    assert replication.of(whole).online(dying).state.startswith("Secondary")
    wait_until_seen(nodes, dying, "Secondary, Connected")
    assert drbd.verify(whole) == 0


def test_a_peer_that_others_disconnect_for_a_moment_is_told(whole):
    """What was written meanwhile was on one disk only; afterwards both are UpToDate again."""
    peer = drbd.other(whole, drbd.primary(whole).node).node

    def part():
        for word in ("disconnect", "connect"):
            container = str(whole.node(peer).container.id)
            subprocess.run(["docker", "exec", container, "guest", "resource", word], check=True)
            clock.pause(1)
        drbd.wait_until_whole(whole)

    proof = proof_while(whole, UNCHANGED, part)

    assert not proof.ok and re.search(r"connection was \w+ on node|peer's role was Unknown on node", proof.found)


@pytest.mark.long
def test_reading_the_states_of_machines_takes_a_small_part_of_a_commands_time(whole):
    """So they can be read while a load is measured; a command in a machine takes a third of a second of its CPU."""
    nodes, peers = replication.of(whole), drbd.peers(whole)
    for name, peer in peers.items():
        found = peer.status()
        wait_until_seen(nodes, name, found.role)
        assert str(nodes.view(name)) == str(View(f"{found.role}, {found.connection}", disks=found.disks()))

    views = cpu_seconds(whole, lambda: [nodes.view(name) for name in peers])
    commands = cpu_seconds(whole, lambda: [peer.status() for peer in peers.values()])

    assert views <= commands / 5, (views, commands)


@pytest.mark.long
def test_service_moves_to_the_peer_and_back(whole, command):
    """A primary in standby hands over first; what was written without it is resynced when it is back."""
    first = drbd.primary(whole).node
    second = drbd.other(whole, first).node
    write(whole, first)
    before = texts(whole, first)
    said = command("standby", first, "--lab", whole.name)

    assert said.returncode == 0 and "its service moved to the peer in" in said.stdout, said.stderr
    assert texts(whole, second) == before
    write(whole, second)
    assert drbd.Peer(whole, second).status().out_of_sync_kib > 0
    back = command("online", first, "--lab", whole.name)
    assert "UpToDate here, UpToDate there, oos 0 KiB" in back.stdout, back.stderr
    assert replication.of(whole).standby(second).seconds > 0
    replication.of(whole).online(second)
    assert drbd.primary(whole).node == first


# A busy machine copies more slowly.
@pytest.mark.long
@pytest.mark.alone
def test_a_resynchronisation_keeps_to_its_rate_and_shows_how_far_it_is(whole, command):
    """At 4 MiB/s what a peer missed is copied at 4 MiB/s, and the status says how much is done."""
    serving = drbd.primary(whole)
    peer = drbd.other(whole, serving.node)
    for each in (serving, peer):
        each.tell("options", "disk", f"--resync-rate={RATE_KIB}K")
    replication.of(whole).standby(peer.node)
    ballast = "dd if=/dev/urandom of=/var/lib/mysql/ballast bs=1M count=64 conv=fsync; rm /var/lib/mysql/ballast"
    whole.node(serving.node).run("guest", "sh", "-c", ballast)
    peer.tell("connect")
    clock.wait_until(lambda: serving.status().connection == "SyncSource", "the resynchronisation")
    shown = command("status", "--lab", whole.name).stdout
    rates, percents = machines.rates_of(serving)
    interval = interval_of_mean([rate / RATE_KIB for rate in rates], 0.95)

    assert "% done" in shown
    assert len(percents) > 3 and sorted(percents) == percents
    assert 0.85 < interval.low and interval.high < 1.1, interval


@pytest.mark.long
def test_a_split_brain_is_seen_and_ended_by_giving_up_one_side(whole, command):
    """Both were primary while the link was cut: neither is trusted until the victim is chosen."""
    first = drbd.primary(whole).node
    second = drbd.other(whole, first).node
    with cut(whole):
        clock.wait_until(lambda: drbd.Peer(whole, second).status().peer_role != drbd.PRIMARY, "the cut to be noticed")
        drbd.Peer(whole, second).tell("promote")
        drbd.Peer(whole, second).wait_until_serves()
        whole.node(second).server().execute(f"INSERT INTO {HELD} (text) VALUES ('given up')")
        whole.node(first).server().execute(f"INSERT INTO {HELD} (text) VALUES ('kept')")
    clock.wait_until(lambda: drbd.Peer(whole, first).status().split_brain, "the split brain to be detected")
    shown = command("status", "--lab", whole.name).stdout

    assert "split brain: ./lab rejoin NODE --discard-errant" in " ".join(shown.split())
    with pytest.raises(LabError, match="split brain"):
        replication.of(whole).online(second)
    resolved = command("rejoin", second, "--discard-errant", "--lab", whole.name)
    assert resolved.returncode == 0, resolved.stderr
    assert drbd.primary(whole).node == first
    kept = texts(whole, first)
    assert "kept" in kept and "given up" not in kept
    assert drbd.verify(whole) == 0


@pytest.mark.long
def test_a_disk_error_on_the_primary_costs_the_disk_and_not_the_service(whole):
    """on-io-error detach: the server goes on by the peer's disk; healed and attached, what it missed is copied."""
    serving = drbd.primary(whole)
    serving.disk.fail()
    try:
        write(whole, serving.node)
        alone = serving.status()
        assert (alone.role, alone.disk, alone.peer_disk) == ("Primary", "Diskless", "UpToDate")
        assert f"{serving.node}-19" in texts(whole, serving.node)
    finally:
        serving.disk.heal()
        replication.of(whole).online(serving.node)
    assert drbd.verify(whole) == 0


@pytest.mark.long
def test_a_peer_that_differs_silently_is_found_by_comparing(whole, command):
    """One sector of the peer's disk is inverted: only a comparison finds it, and reconnecting repairs it."""
    serving = drbd.primary(whole)
    peer = drbd.other(whole, serving.node)
    peer.disk.corrupt(200 << 20)
    assert serving.status().whole
    compared = command("disk", "check", peer.node, "--lab", whole.name)

    assert compared.returncode == 1 and "4 KiB differ" in compared.stdout, compared.stderr
    assert "oos 4 KiB" in command("status", "--lab", whole.name).stdout
    assert command("online", peer.node, "--lab", whole.name).returncode == 0
    assert drbd.verify(whole) == 0


@pytest.mark.long
def test_a_comparison_that_breaks_off_finds_nothing_and_says_so(whole):
    """The machines meet again and nothing is out of sync: that would pass for equal disks."""
    serving = drbd.primary(whole)
    with ThreadPoolExecutor(1) as pool:
        compared = pool.submit(serving.differing_kib)
        clock.wait_until(lambda: serving.status().connection == "VerifyS", "the comparison")
        with cut(whole):
            clock.wait_until(lambda: serving.status().connection == "WFConnection", "the cut to be noticed")

        with pytest.raises(LabError, match="was aborted"):
            compared.result()
    drbd.wait_until_whole(whole)
    assert drbd.verify(whole) == 0


@pytest.mark.long
@pytest.mark.parametrize("toxic", ["black-hole", "slow-1mbit", "wan-85ms"])
def test_commits_feel_the_link(whole, toxic):
    """A silent peer is noticed, and the primary goes on alone; a commit waits for a long link and a slow one.

    The row of 4 KiB that a commit writes takes 33 ms on the slow link, which may be 2 ms ahead of its rate.
    """
    serving = drbd.primary(whole)
    proofs = up.set_toxics(whole, {link.name: toxic for link in whole.topology.links})
    milliseconds = machines.milliseconds_a_commit(whole, serving.node)
    status = serving.status()

    assert all(proof.ok for proof in proofs), proofs
    assert status.connection == ("WFConnection" if toxic == "black-hole" else "Connected")
    if toxic == "wan-85ms":
        assert milliseconds >= 85
    if toxic == "slow-1mbit":
        assert milliseconds >= 30


# A busy machine answers late, as across a slower link.
@pytest.mark.long
@pytest.mark.alone
def test_a_narrow_link_is_proved_while_writes_fill_it(whole):
    """The disk's writes go to the peer; the rate of the other direction must not wait for them."""
    serving = whole.node(drbd.primary(whole).node)
    filling = f"while [ -e {FILLING} ]; do {FILL} 2>/dev/null; done; rm /var/lib/mysql/.filling"
    with ThreadPoolExecutor() as pool:
        serving.run("guest", "touch", FILLING)
        try:
            writing = pool.submit(serving.run, "guest", "sh", "-c", filling)
            proofs = up.set_toxics(whole, {link.name: "slow-1mbit" for link in whole.topology.links})
            still_writing = not writing.done()
        finally:
            for link in whole.topology.links:
                clear(whole.link(link.name))
            serving.run("guest", "rm", FILLING)

    assert all(proof.ok for proof in proofs), proofs
    assert still_writing


@pytest.mark.long
def test_machines_of_different_settings_do_not_connect_and_say_why(whole):
    """A protocol that only one of them uses: DRBD gives up at once, without a timeout."""
    serving = drbd.primary(whole)
    peer = drbd.other(whole, serving.node)
    with cut(whole):
        # By both: one that still believes in the old connection would go on by it once the links are back.
        for machine in (serving, peer):
            clock.wait_until(lambda m=machine: m.status().connection != drbd.CONNECTED, "the cut to be noticed")
        peer.tell("options", "net", "--protocol=A")
        assert peer.settings()["protocol"] == "A"
    # `online` connects one that has given up already, by the settings of the resource's file.
    with pytest.raises(LabError, match=r"(?s)has stopped trying to connect.*protocol"):
        drbd.wait_until_whole(whole)
    peer.tell("adjust")
    replication.of(whole).online(peer.node)


@pytest.mark.long
def test_two_primaries_are_refused_while_they_know_of_each_other(whole, command):
    """With what to type instead."""
    serving = drbd.primary(whole).node
    refused = command("failover", drbd.other(whole, serving).node, "--lab", whole.name)

    assert refused.returncode == 2
    assert re.search(rf"{serving} is primary\n(.*\n)*.*lab standby --lab {whole.name} {serving}", refused.stderr)


def test_two_primaries_are_refused_while_a_cut_link_keeps_them_from_knowing(whole):
    """Both machines can be asked; which of them is primary is no matter of their link."""
    serving = drbd.primary(whole)
    peer = drbd.other(whole, serving.node)
    with cut(whole):
        clock.wait_until(lambda: peer.status().peer_role != drbd.PRIMARY, "the cut to be noticed")
        with pytest.raises(LabError, match=f"{serving.node} is primary"):
            replication.of(whole).take_over(peer.node)
    assert not peer.status().primary


def test_a_frozen_primary_is_not_taken_for_a_dead_one(whole, command):
    """It would go on in the middle of what it was doing, beside another one."""
    serving = drbd.primary(whole)
    peer = drbd.other(whole, serving.node)
    whole.node(serving.node).pause()
    try:
        refused = command("failover", peer.node, "--lab", whole.name)
    finally:
        whole.node(serving.node).unpause()

    assert refused.returncode == 2 and f"{serving.node} is frozen" in refused.stderr
    assert f"./lab start --lab {whole.name} {serving.node}" in refused.stderr
    assert not peer.status().primary


@pytest.mark.long
def test_a_machine_that_has_not_met_its_peer_since_its_start_is_not_promoted_unless_told(whole):
    """Without this refusal the peer's later writes would be lost silently."""
    serving = drbd.primary(whole)
    peer = drbd.other(whole, serving.node)
    whole.node(peer.node).kill()
    write(whole, serving.node, 3)
    whole.node(serving.node).kill()
    whole.node(peer.node).start_again()
    peer.wait_until_answers()
    with pytest.raises(LabError, match=f"has not connected to {serving.node}"):
        replication.of(whole).take_over(peer.node)
    whole.node(serving.node).start_again()
    replication.of(whole).online(serving.node)
    replication.of(whole).take_over(serving.node)


def test_a_client_is_led_to_the_machine_that_serves(whole, command):
    """Whichever it is; a person's client runs in the guest."""
    serving = drbd.primary(whole).node
    assert serving in command("sql", "--lab", whole.name, "-e", "SELECT @@hostname").stdout
    with processes_watched() as seen:
        assert serving in command("sql", "--lab", whole.name, stdin="SELECT @@hostname, SLEEP(0.3)").stdout
    check_no_password(whole, seen, b"MYSQL_PWD=$MYSQL_ROOT_PASSWORD")


def test_a_split_brain_that_somebody_has_ended_is_not_told_of_any_more(whole):
    """By hand, or by Pacemaker: they are connected, and no writes need to be discarded."""
    peer = drbd.primary(whole)
    whole.node(peer.node).run("guest", "touch", "/run/lab/split-brain")

    assert not peer.status().split_brain


def test_a_server_that_died_by_itself_leaves_no_trace_once_it_is_stopped(whole):
    """Its file would have its machine asked for a server's health, standing by."""
    peer = drbd.other(whole, drbd.primary(whole).node)
    gone = "true & wait; echo $! >/run/lab/server.pid; server stop; ls /run/lab"

    assert "server.pid" not in whole.node(peer.node).run("guest", "bash", "-c", gone)
    assert peer.status().whole


def test_nothing_is_discarded_without_a_split_brain(whole, command):
    """The machine is connected and has all rows, so that taking it back changes nothing."""
    back = command("rejoin", "node1", "--discard-errant", "--lab", whole.name)

    assert back.returncode == 0 and "discarded" not in back.stdout, back.stderr


def test_status_and_show_say_roles_connection_disks_and_what_differs(whole, command):
    """As text and as data."""
    (lab,) = json.loads(command("status", "--lab", whole.name, "--json").stdout)
    shown = [node["details"]["resource"] for node in lab["nodes"]]
    said = {node.name: node.replication for node in views.view(whole).nodes}

    assert {status["disk"] for status in shown} == {"UpToDate"}
    assert sorted(status["role"] for status in shown) == ["Primary", "Secondary"]
    assert all("Connected, UpToDate here, UpToDate there, oos 0 KiB" in words for words in said.values())


@pytest.mark.long
def test_a_machine_that_gives_up_ends_the_start_with_its_reason(docker, command, name):
    """On a disk without space for DRBD's own blocks: the error comes before a timeout of minutes."""
    began = clock.timer()
    refused = command("up", "drbd", "--lab", name, LAB_DISK_SIZE="64K")

    assert refused.returncode == 2
    assert "did not start its disks" in refused.stderr and "That's not enough" in refused.stderr
    assert clock.timer() - began < START_PERIOD_SECONDS
    assert things_of(name) == []


@pytest.mark.long
def test_emulated_machines_serve_on_a_replicated_disk(docker, monkeypatch):
    """What takes nothing of the host: slower, and the same otherwise."""
    monkeypatch.setenv("LAB_VM", "tcg")
    with two_machines() as lab:
        serving = drbd.primary(lab).node
        write(lab, serving, 3)
        lab.node(serving).kill()
        lab.refresh()
        replication.of(lab).take_over(drbd.other(lab, serving).node)

        assert "tcg" == lab.launcher
        assert {f"{serving}-{number}" for number in range(3)} == texts(lab, drbd.other(lab, serving).node)
