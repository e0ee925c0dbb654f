"""Is what DRBD says of itself read right, and is nothing dangerous done without need?"""

import pytest
from replication_lab.lab import disks
from replication_lab.replication.drbd import HOW_TO_RESOLVE, Machines, _prove_whole
from replication_lab.world import catalogue
from replication_lab.world.machines import drbd
from replication_lab.world.machines.drbd import Peer, ResourceStatus, parse_status

from tests.fakes.drbd_pair import CONNECTED, DOWN, STAND_ALONE, SYNCING, Pair


def test_a_connected_resource_is_whole():
    """Roles, disks, protocol, counts in KiB, and how the order of writes is kept."""
    found = parse_status(CONNECTED)

    assert (found.connection, found.role, found.peer_role) == ("Connected", "Primary", "Secondary")
    assert (found.disk, found.peer_disk, found.protocol, found.write_order) == ("UpToDate", "UpToDate", "C", "f")
    assert (found.sent_kib, found.received_kib, found.written_kib, found.read_kib) == (8144, 1, 8240, 7694)
    assert found.activity_log_writes == 19
    assert found.whole and found.primary and found.synced_percent is None and not found.split_brain


def test_a_resynchronisation_says_how_far_it_is():
    """And until its end the machines are not equal."""
    found = parse_status(SYNCING)

    assert (found.synced_percent, found.out_of_sync_kib, found.whole) == (43.8, 5120, False)
    assert "SyncSource, UpToDate here, Inconsistent there, oos 5120 KiB, 43.8 % done" in found.words()


def test_a_split_brain_is_what_the_handler_wrote_down():
    """StandAlone without the handler's note may be an administrator's order."""
    assert parse_status(STAND_ALONE).split_brain
    assert not parse_status(STAND_ALONE.replace("split-brain\n", "")).split_brain


def test_a_resource_that_is_down_is_none_that_serves():
    """The kernel knows nothing else of it."""
    found = parse_status(DOWN)

    assert (found.connection, found.role, found.whole) == ("Unconfigured", "Unknown", False)


@pytest.mark.parametrize("text", ["", "version: 8.4.11\n", " 1: cs:Connected ro:Primary/Secondary"])
def test_without_the_resource_it_is_an_error(text, refused):
    """A module that is loaded is no resource yet."""
    assert "no DRBD resource" in refused(parse_status, text).found


def test_a_difference_is_not_whole_however_connected():
    """What a comparison has found to differ counts."""
    assert not parse_status(CONNECTED.replace("oos:0", "oos:4")).whole


def test_a_machines_view_says_how_a_split_brain_is_ended():
    """In `lab status`, and only then."""
    kind = Machines(Pair(node1=STAND_ALONE, node2=SECONDARY))

    assert kind.state("node1", "peer").says.endswith("split brain: ./lab rejoin NODE --discard-errant")
    assert kind.state("node2", "peer").says.endswith("oos 0 KiB")
    assert kind.state("node1", "peer").details == {"resource": parse_status(STAND_ALONE)}


# --- what is refused --------------------------------------------------------------------------------------------------


SECONDARY = CONNECTED.replace("Primary/Secondary", "Secondary/Primary")


def test_a_second_primary_is_refused(refused):
    """While the first one is there, with the command that moves the service."""
    pair = Pair(node1=CONNECTED, node2=SECONDARY)
    error = refused(Machines(pair).take_over, "node2")

    assert ("node1 is primary", "./lab standby node1") == (error.found, error.next_step)
    assert [] == pair.told


def test_a_second_primary_is_refused_where_the_link_is_cut(refused):
    """The machine to promote cannot see its peer, which itself reports that it is primary."""
    cut = CONNECTED.replace("Connected", "WFConnection").replace("/Secondary", "/Unknown")
    pair = Pair(node1=cut, node2=STAND_ALONE.replace("ro:Primary", "ro:Secondary"))

    assert "node1 is primary" == refused(Machines(pair).take_over, "node2").found
    assert [] == pair.told


def test_a_machine_that_stands_by_is_not_promoted(refused):
    """Its peer wrote without it, and is dead now: those rows would be lost silently."""
    away = STAND_ALONE.replace("ro:Primary", "ro:Secondary")
    dead, alive = Pair(node1="", node2=away), Pair(node1=SECONDARY, node2=away)
    error = refused(Machines(dead).take_over, "node2")

    assert "node2 is in standby" in error.found and "./lab start node1" == error.next_step
    assert "./lab online node2" == refused(Machines(alive).take_over, "node2").next_step
    assert [] == dead.told == alive.told


def test_a_machine_that_does_not_run_is_not_waited_for(refused):
    """It has to be started first, and the error says how."""
    pair = Pair(node1="", node2=SECONDARY)
    error = refused(Machines(pair).online, "node1")

    assert ("node1 is not running", "./lab start node1") == (error.found, error.next_step)


def test_a_disk_that_had_failed_is_attached_also_where_its_machine_stands_by():
    """Before they meet: else the peer's data have nowhere to go."""
    away = SECONDARY.replace("cs:Connected", "cs:StandAlone").replace("ds:UpToDate", "ds:Diskless")
    attached = {("node2", "attach"): {"node2": away.replace("Diskless", "UpToDate")}}
    pair = Pair(obeys=attached | {("node2", "connect"): {"node2": SECONDARY}}, node1=CONNECTED, node2=away)
    Machines(pair).online("node2")

    assert [("node2", "attach"), ("node2", "connect")] == pair.told


def test_a_primary_does_not_stand_by_for_a_peer_without_its_data(refused):
    """Service would move to old data."""
    syncing_peer = SYNCING.replace("Primary/Secondary", "Secondary/Primary").replace("SyncSource", "SyncTarget")
    pair = Pair(node1=SYNCING, node2=syncing_peer)
    error = refused(Machines(pair).standby, "node1")

    assert "node2 cannot take over from node1" == error.found
    assert [] == pair.told


@pytest.mark.parametrize(
    ("state", "answer", "next_step"),
    [
        ("paused", "", "./lab start node1, or ./lab kill node1"),
        ("running", "", "./lab kill node1"),
    ],
)
def test_nobody_is_promoted_beside_one_that_may_be_primary(state, answer, next_step, refused, monkeypatch):
    """A frozen or silent peer may continue at any moment, and acknowledge rows that only it has."""
    monkeypatch.setattr(drbd, "SILENT_SECONDS", 0)
    pair = Pair(node1=answer, node2=SECONDARY)
    pair.state_of = lambda node: (state if node == "node1" else "running", 0)

    assert next_step == refused(Machines(pair).take_over, "node2").next_step
    assert [] == pair.told


def test_a_machine_that_has_not_met_its_peer_since_its_start_is_promoted_only_when_told_that_it_may_be_behind(
    refused, monkeypatch
):
    """Its disk may be that of last week."""
    monkeypatch.setattr(Peer, "wait_until_serves", lambda self: None)
    alone = SECONDARY.replace("Connected", "WFConnection").replace("/Primary", "/Unknown")
    pair = Pair(node1="", node2=alone)
    error = refused(Machines(pair).take_over, "node2")

    assert "has not connected to node1" in error.found and "./lab start node1" in error.next_step
    assert [] == pair.told
    Machines(pair).take_over("node2", allow_data_loss=True)
    assert [("node2", "promote")] == pair.told


def test_a_primary_that_has_lost_its_disk_can_hand_over(monkeypatch):
    """Its peer has all that was written; what is out of sync is missing where there is no disk."""
    monkeypatch.setattr(Machines, "take_over", lambda self, name: self.lab.told.append((name, "promote")))
    diskless = CONNECTED.replace("ds:UpToDate/UpToDate", "ds:Diskless/UpToDate")
    peer = SECONDARY.replace("ds:UpToDate/UpToDate", "ds:UpToDate/Diskless").replace("oos:0", "oos:96")
    pair = Pair(node1=diskless, node2=peer)
    Machines(pair).standby("node1")

    assert [("node1", "demote"), ("node2", "promote"), ("node1", "disconnect")] == pair.told


@pytest.mark.parametrize("survivor", ["", STAND_ALONE.replace("ds:UpToDate", "ds:Diskless")])
def test_a_victim_gives_nothing_up_for_a_survivor_that_is_not_there(survivor, refused):
    """It would stop the only server, and throw its rows away."""
    pair = Pair(node1=survivor, node2=STAND_ALONE)
    refused(Machines(pair).take_back, "node2", discard_errant=True)

    assert [] == pair.told


def test_what_a_comparison_found_is_copied_when_they_meet_again():
    """Connected, and known to differ: nothing would move by itself."""
    differing = SECONDARY.replace("oos:0", "oos:4")
    parted = differing.replace("cs:Connected", "cs:StandAlone")
    pair = Pair(
        obeys={("node2", "disconnect"): {"node2": parted}, ("node2", "connect"): {"node2": SECONDARY}},
        node1=CONNECTED,
        node2=differing,
    )
    Machines(pair).online("node2")

    assert [("node2", "disconnect"), ("node2", "connect")] == pair.told


def test_a_comparison_under_way_is_no_reason_to_stay():
    """All data are on both disks, and every write goes to both."""
    assert parse_status(CONNECTED.replace("cs:Connected", "cs:VerifyS")).whole


@pytest.mark.parametrize("act", ["take_over", "standby", "online", "take_back"])
def test_an_unknown_machine_is_refused(act, refused):
    """With the nearest that there is."""
    pair = Pair(node1=CONNECTED, node2=SECONDARY)

    assert "did you mean node1?" in refused(getattr(Machines(pair), act), "nod1").found
    assert [] == pair.told


def test_nothing_is_given_up_without_a_split_brain():
    """A peer that is connected, or merely in standby, has nothing that would be lost."""
    pair = Pair(node1=CONNECTED, node2=SECONDARY)
    back = Machines(pair).take_back("node2", discard_errant=True)

    assert ("", True) == (back.discarded, back.state.startswith("Secondary, Connected"))
    assert [] == pair.told


def test_going_online_does_not_hide_a_split_brain(refused):
    """It would be refused by DRBD again and again."""
    pair = Pair(node1=STAND_ALONE, node2=STAND_ALONE)

    assert HOW_TO_RESOLVE == refused(Machines(pair).online, "node2").next_step
    assert [] == pair.told


def test_two_primaries_are_no_primary(refused):
    """Then the user has to name the machine."""
    pair = Pair(node1=STAND_ALONE, node2=STAND_ALONE)

    assert "node1 and node2 of lab-drbd is primary" == refused(drbd.primary, pair).found


# --- proofs, and what spoils them -------------------------------------------------------------------------------------


def test_a_machine_that_has_given_up_says_why(monkeypatch, refused):
    """The error has the kernel's messages, and comes without a timeout."""
    pair = Pair(node1=STAND_ALONE, node2=SECONDARY)
    error = refused(drbd.wait_until_whole, pair)

    assert "node1 has stopped trying to connect" in error.found


@pytest.mark.parametrize(("text", "shown", "whole"), [(SYNCING, [43.8], False), (CONNECTED, [], True)])
def test_a_resynchronisation_that_is_waited_for_shows_how_far_it_is(text, shown, whole):
    """As one of the machines counts it, until both are equal."""
    pair, seen = Pair(node1=text, node2=SECONDARY), []
    over, said = drbd._recovery([Peer(pair, "node1"), Peer(pair, "node2")], seen.append)

    assert whole == over and "node2 Secondary, Connected" in said
    assert shown == seen


def test_what_clients_write_while_the_peer_is_away_is_no_progress():
    """Else the wait for a peer that never comes would last as long as clients write."""
    away = CONNECTED.replace("Connected", "WFConnection")
    looks = [Pair(node1=away.replace("oos:0", f"oos:{kib}"), node2=SECONDARY) for kib in (0, 400)]
    said = {drbd._recovery([Peer(pair, "node1")], lambda percent: None)[1] for pair in looks}

    assert 1 == len(said)


def test_a_resynchronisation_that_does_not_move_is_given_up_with_its_reason(monkeypatch, refused):
    """The wait for two machines that do not connect ends; the error has both kernels' messages."""
    pair = Pair(node1=CONNECTED.replace("Connected", "WFConnection"), node2=SECONDARY)
    now = iter((1000, 1001, 1179, 1182))
    monkeypatch.setattr(drbd.clock, "timer", lambda: next(now))
    monkeypatch.setattr(drbd.clock.time, "sleep", lambda _seconds: None)
    error = refused(drbd.wait_until_whole, pair)

    said = "no progress for 180 s; last state: node1 Primary, WFConnection, UpToDate here, UpToDate there; node2"
    assert said in error.found
    assert "node1's kernel" in error.found and "node2's kernel" in error.found
    assert [] == list(now)


@pytest.mark.parametrize(
    ("text", "ok"),
    [
        (CONNECTED, True),
        (CONNECTED.replace("oos:0", "oos:4"), False),
        (CONNECTED.replace("cs:Connected", "cs:WFConnection"), False),
        (CONNECTED.replace("UpToDate/UpToDate", "UpToDate/Inconsistent"), False),
        (CONNECTED.replace(" C r", " A r"), False),
        (SECONDARY, False),
    ],
)
def test_a_replicated_disk_is_proved_by_both_machines(text, ok):
    """Connected, equal, protocol C, one primary: anything else is not so."""
    found: dict[str, ResourceStatus] = {"node1": parse_status(text), "node2": parse_status(SECONDARY)}

    assert ok == _prove_whole(found).ok


DIFFERING = CONNECTED.replace("oos:0", "oos:4")


def comparison(begun, ended):
    """Return a pair whose first machine is to compare."""
    return Pair(obeys={("node1", "verify"): {"node1": ended}}, node1=begun, node2=SECONDARY)


def test_a_comparison_counts_what_differs():
    """It waits for the end, and asks then."""
    pair = comparison(
        CONNECTED + "connected-at 2.26\ncompared-at \n", DIFFERING + "connected-at 2.26\ncompared-at 9.50\n"
    )

    assert 4 == Peer(pair, "node1").differing_kib()
    assert [("node1", "verify")] == pair.told


@pytest.mark.parametrize(
    ("ended", "ok", "said"), [(CONNECTED, True, "0 KiB differ"), (DIFFERING, False, "4 KiB differ")]
)
def test_a_check_of_a_replicated_disk_compares_both_copies(ended, ok, said):
    """By the command for any disk; a difference comes with the command that copies the primary's blocks."""
    pair = comparison(CONNECTED + "connected-at 2.26\ncompared-at \n", ended + "connected-at 2.26\ncompared-at 9.50\n")
    pair.topology = catalogue.topology("drbd")
    (proof,) = disks.check(pair, "node2", [].append)

    assert (proof.ok, proof.found.startswith(said)) == (ok, True)
    assert ok or proof.found.endswith("./lab online PEER")


def test_a_comparison_under_way_says_how_far_it_is():
    """In percent, as DRBD counts them; one that is done says nothing."""
    told, comparing = [], CONNECTED.replace("cs:Connected", "cs:VerifyS") + "\tverified: 30.5% (356/512)M\n"
    pairs = [Pair(node1=text, node2=SECONDARY) for text in (comparing, CONNECTED)]
    looks = [Peer(pair, "node1")._has_compared(told.append) for pair in pairs]

    assert [done for done, _ in looks] == [False, True]
    assert [30.5] == told


@pytest.mark.parametrize(
    "moments",
    [
        pytest.param("connected-at 2.26\ncompared-at 1.50\n", id="it came to no end"),
        pytest.param("connected-at 8.26\ncompared-at 9.50\n", id="what it found was copied when they met again"),
    ],
)
def test_a_comparison_that_broke_off_is_no_comparison(refused, moments):
    """Nothing out of sync then means nothing."""
    pair = comparison(CONNECTED + "connected-at 2.26\ncompared-at 1.50\n", CONNECTED + moments)
    error = refused(Peer(pair, "node1").differing_kib)

    assert "was aborted" in error.found and "./lab disk check node1" == error.next_step
