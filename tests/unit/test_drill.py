"""Are drills read strictly, and their faults done and undone together?"""

from collections import Counter

import msgspec
import pytest
from replication_lab.faults.schedule import FaultSchedule
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill import drill
from replication_lab.model.drill.drill import Drill, Step, parse_drill
from replication_lab.model.drill.fault import links_of
from replication_lab.model.lab.storage import Storage
from replication_lab.probes import forbidden_logs
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

from tests.unit.synthetic_drill import FILE, GALERA, KINDS, parsed

CLOCK = "fault: clock, skew: 60, targets: [node1]"


# --- files ------------------------------------------------------------------------------------------------------------


ALL = [(topology, name) for topology in catalogue.topologies() for name in catalogue.drills(topology)]


@pytest.mark.parametrize(("topology", "name"), ALL)
def test_the_drills_that_are_there_can_be_read(topology, name):
    """Each says what it is about, expects something, and expects above all that nothing acknowledged is lost."""
    found = drill_set.load(topology, name)
    # One server has nothing to differ from, and of a replicated disk one machine's rows can be read.
    alone = catalogue.topology(topology).replication in ("none", "drbd")
    compared = set() if alone else {"diverged"}

    assert found.about and found.clients
    figures = {each.figure for each in found.expected}
    # Copies that are known to stay apart are not compared, nor those that cannot be read while a fault stays.
    if "recovered" not in figures and not any(step.stays for step in found.steps):
        assert {"lost", "rpo_s"} & figures
        assert {"phantoms"} | compared <= figures
    assert set(found.tolerates) <= set(forbidden_logs.forbidden())


def test_every_topology_of_another_kind_has_drills():
    """Those that differ in nothing but their number of nodes share theirs."""
    having = set(drill_set.known())

    assert {"single", "async", "semisync", "fanout", "chain", "galera", "group", "raid", "drbd", "drbd-ha"} <= having


def test_there_are_drills_of_all_kinds():
    """Kill, cut, silence, slowness, all at once, and conflict."""
    names = {"kill-node", "cut-node", "cut-link", "black-hole-node", "slow-link", "kill-all", "write-conflict"}

    assert names <= set(catalogue.drills("galera"))


def test_the_documented_keys_are_those_that_a_file_may_have():
    """An unknown key is refused with the words: only the keys that docs/drills.md lists."""
    table = (catalogue.ROOT / "docs" / "drills.md").read_text().partition("| key | meaning |\n")[2].partition("\n\n")[0]
    of_faults = {setting.name for kind in KINDS.values() for setting in kind.settings}
    keys = {*Drill.__struct_fields__, *Step.__struct_fields__, *of_faults} - {"name", "topology"}

    assert {key for key in keys if f"`{key}`" not in table} == set()


def test_the_clock_of_a_virtual_machine_is_refused(refused):
    """Only a server that runs in a container can have its own."""
    text = FILE.replace("{node1: 1, node2: 1}", "{node1: 1}").replace("fault: cut, targets: [node3]", CLOCK)

    found = refused(parse_drill, "test", catalogue.topology("drbd"), text, KINDS)
    assert "the clock of a virtual machine" in found.found


def test_drbds_disk_fails_only_where_there_is_drbd(refused):
    """Elsewhere disks fail otherwise."""
    text = FILE.replace("fault: cut, targets: [node3]", "fault: drbd-disk-fail, targets: [node3]")

    assert "drbd-disk-fail in galera" in refused(parse_drill, "test", catalogue.topology("galera"), text, KINDS).found


@pytest.mark.parametrize(
    ("fault", "topology", "targets", "found"),
    [
        ("power-cut", "galera", "[node3]", "power-cut in galera"),
        ("power-cut", "drbd-ha", "[node1]", "under pacemaker"),
        ("drbd-split-brain", "drbd-ha", "[node1]", "under pacemaker"),
        ("drbd-split-brain", "drbd", "[node1, node2]", "on 2 machines"),
    ],
)
def test_what_is_done_to_two_machines_is_refused_elsewhere(refused, fault, topology, targets, found):
    """A cluster manager would act by itself, and a split brain has one victim."""
    clients = FILE.replace("{node1: 1, node2: 1}", "{node1: 1}")
    text = clients.replace("fault: cut, targets: [node3]", f"fault: {fault}, targets: {targets}")

    assert found in refused(parse_drill, "test", catalogue.topology(topology), text, KINDS).found


@pytest.mark.parametrize("fault", ["cut", "flap", "toxic, toxic: wan-85ms"])
def test_a_fault_of_links_on_a_node_without_links_is_refused(refused, fault):
    """It would do nothing."""
    text = FILE.replace("{node1: 1, node2: 1}", "{server: 1}").replace(
        "cut, targets: [node3]", f"{fault}, targets: [server]"
    )

    assert "on server, which has no link" in refused(drill_set.parse, "test", catalogue.topology("single"), text).found


def test_drbds_options_are_refused_where_there_is_no_drbd(refused):
    """They would do nothing."""
    text = FILE.replace("about:", "options: {disk: [--disk-flushes=no]}\nabout:")

    assert (
        "sets options of DRBD, which galera does not have"
        in refused(drill_set.parse, "test", catalogue.topology("galera"), text).found
    )
    wrong = text.replace("{disk:", "{dsk:").replace("{node1: 1, node2: 1}", "{node1: 1}").replace("[node3]", "[node1]")
    assert "did you mean disk?" in refused(drill_set.parse, "test", catalogue.topology("drbd"), wrong).found


def test_who_serves_first_is_said_only_where_a_cluster_manager_chooses(refused):
    """Elsewhere the key would do nothing."""
    text = FILE.replace("about:", "initial_primary: node2\nabout:").replace("[node3]", "[node1-node2]")

    assert drill_set.parse("test", catalogue.topology("drbd-ha"), text).initial_primary == "node2"
    assert (
        "initial_primary needs a cluster manager"
        in refused(drill_set.parse, "test", catalogue.topology("drbd"), text).found
    )
    wrong = text.replace("initial_primary: node2", "initial_primary: node9")
    assert "'node9'" in refused(drill_set.parse, "test", catalogue.topology("drbd-ha"), wrong).found


def test_a_fault_stays_in_the_last_step_only(refused):
    """What comes after it would be another fault beside it; and a manager could undo it later."""
    stays = "{fault: cut, targets: [node3], seconds: 3, recover: none}"
    text = FILE.replace("[{fault: cut, targets: [node3], seconds: 3}]", f"[{stays}, {stays}]")

    assert "in a step that others follow" in refused(parse_drill, "test", GALERA, text, KINDS).found
    managed = drill_set.load("semisync", "lose-source-for-good")
    assert "leaves its fault in place" in refused(drill_set.under_manager, [managed], "keepalived", {}).found


def test_a_failover_is_refused_where_no_node_can_be_promoted(refused):
    """Before a lab starts; not when the step is due."""
    text = FILE.replace("fault: cut,", "failover: node2, fault: cut,")

    assert (
        "galera has no node that can be promoted"
        in refused(drill_set.parse, "test", catalogue.topology("galera"), text).found
    )


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "fault: cut",
            "fault: cutt",
            "unknown fault in harness/replication_lab/drills/galera/test.yaml 'cutt'; did you mean cut?",
        ),
        ("[node3]", "[node33]", "unknown link of galera 'node33'"),
        ("fault: cut, targets: [node3]", "fault: kill, targets: [nod3]", "unknown node of galera 'nod3'"),
        ("node2: 1", "node4: 1", "unknown node of galera 'node4'"),
        ("fault: cut,", "fault: toxic, toxic: wan-86ms,", "unknown toxic in"),
        ("fault: cut,", "fault: toxic, toxic: 40m,", "toxic in harness/replication_lab/drills/galera/test.yaml '40m'"),
        ("fault: cut,", "fault: toxic, toxic: 40,", "toxic: Expected `str`, got `int`"),
        ("[node3]", "[]", "cut has no targets"),
        ("fault: cut,", "fault: clock,", "clock with a skew of 0 s"),
        ("fault: cut,", "fault: cut, skew: 5,", "cut with a skew of 5 s"),
        ("fault: cut,", "fault: clock, skew: soon,", "skew: Expected `int`, got `str`"),
        ("fault: cut,", "fault: cut, toxic: wan-85ms,", "cut with the toxic wan-85ms"),
        ("fault: cut,", "fault: disk-full,", "disk-full in galera, where not every target has disks of its own"),
        ("fault: cut,", "fault: disk-fail,", "disk-fail in galera, where not every target is on RAID1"),
        (FILE, f"{FILE}storage: {{node4: single}}", "unknown node of galera 'node4'"),
        (FILE, f"{FILE}storage: {{node1: raid5}}", "unknown level of storage 'raid5'"),
        ("fault: cut,", "storage: {node3: single}, fault: cut,", "unknown field `storage`"),
        ("seconds: 3", "second: 3", "unknown field `second`"),
        (", equals: 0", "", "exactly one relation"),
        ("equals: 0", "equals: 0, at_most: 3", "exactly one relation"),
        ("equals: 0", "equals: 0, expect: REFUTED", "expects REFUTED"),
        (FILE, "[]", "harness/replication_lab/drills/galera/test.yaml"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(refused, old, new, found):
    """With the word that is wrong."""
    assert found in refused(parsed, FILE.replace(old, new)).found


@pytest.mark.parametrize(
    "toxic", ["40ms", "40ms±5ms", "40ms+-5ms", '"40ms,down=10ms,up=30ms"', "40ms+20mbit", "wan-85ms"]
)
def test_a_toxic_is_a_name_or_a_condition_by_number(toxic):
    """YAML needs quotes where a comma is inside braces."""
    (step,) = parsed(FILE.replace("fault: cut,", f"fault: toxic, toxic: {toxic},")).steps

    assert step.settings == {"toxic": toxic.strip('"')}


def test_a_drill_with_disks_of_its_own_may_have_faults_of_disks(refused):
    """On that node; a machine has its own disk already."""
    full = FILE.replace("fault: cut,", "fault: disk-full,") + "storage: {node3: raid1}"
    on_machines = full.replace("node3", "node1").replace("node2: 1", "node2: 0")

    assert parsed(full).storages == {"node3": Storage(level="raid1")}
    assert "not every target" in refused(parsed, full.replace("storage: {node3", "storage: {node2")).found
    assert "have a disk already" in refused(drill_set.parse, "test", catalogue.topology("drbd"), on_machines).found


def test_a_promise_is_the_expectation_that_the_file_of_promises_has():
    """Before those that the drill has itself; its key `expected` may be left out."""
    own = FILE.replace("expected:", "promises: [copies-equal]\nexpected:")
    alone = FILE.replace("expected: [{says: nothing is lost, figure: lost, equals: 0}]", "promises: [nothing-lost]")

    assert [each.figure for each in drill_set.parse("test", GALERA, own).expected] == ["diverged", "lost"]
    assert drill_set.parse("test", GALERA, alone).expected == [drill_set.promises()["nothing-lost"]]


@pytest.mark.parametrize(
    ("promises", "found"),
    [("[nothing-lots]", "did you mean nothing-lost?"), ("nothing-lost", "Expected `array`"), ("[1]", "Expected `str`")],
)
def test_a_promise_that_does_not_exist_is_refused(refused, promises, found):
    """With the nearest one."""
    assert found in refused(drill_set.parse, "test", GALERA, f"{FILE}promises: {promises}").found


def test_each_promise_is_that_of_several_drills():
    """One of a single drill stands in its file."""
    texts = [catalogue.drill_file(topology, name).read_text() for topology, name in ALL]
    named = Counter(name for text in texts for name in msgspec.yaml.decode(text).get("promises", []))

    assert set(named) <= set(drill_set.promises())
    assert [name for name in drill_set.promises() if named[name] < 2] == []


def test_a_node_means_all_links_that_touch_it():
    """And a link means itself."""
    assert links_of(GALERA, ["node3"]) == ["node1-node3", "node2-node3", "node3-node1", "node3-node2"]
    assert links_of(GALERA, ["node1-node2"]) == ["node1-node2"]


def test_the_schedule_follows_the_seed():
    """The same seed strikes at the same moment, another one at another."""
    moments = [parsed().wait_before(seed) for seed in (1, 1, 2)]

    assert moments[0] == moments[1] != moments[2]
    assert all(parsed().before <= moment <= parsed().before + drill.DRAWN_SECONDS for moment in moments)


def test_a_fault_lasts_as_long_as_asked_for(refused):
    """Or as the file says; never not at all."""
    assert parsed().with_duration(9).steps[0].seconds == 9
    assert parsed().with_duration(None) == parsed()
    refused(drill_set.chosen, "galera", None, 0.0)


def test_names_that_are_none_are_refused(refused):
    """Topology, drill, and a topology without drills."""
    assert "unknown topology" in refused(drill_set.chosen, "galerra", None, None).found
    assert "did you mean kill-node" in refused(drill_set.chosen, "galera", "kill-nod", None).found
    assert "has no drills" in refused(drill_set.chosen, "galera-2", None, None).found


# --- several faults at once -------------------------------------------------------------------------------------------

TWO = """
about: a test's
clients: {source: 1}
steps:
  - {fault: kill, targets: [source], seconds: 3, failover: replica,
     also: [{fault: cut, targets: [source-replica], at: 1.5}]}
expected: [{says: nothing is lost, figure: lost, equals: 0}]
"""


def test_a_step_may_hold_several_faults():
    """Each with its moment; what is printed names them all."""
    (step,) = parse_drill("test", catalogue.topology("async"), TWO, KINDS).steps

    assert [strike.fault for strike in step.fault_specs] == ["kill", "cut"]
    assert str(step) == "kill on source and cut on source-replica after 1.5 s"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("failover: replica", "failover: replic", "unknown node of async 'replic'; did you mean replica?"),
        ("{fault: cut,", "{fault: cutt,", "unknown fault"),
        ("targets: [source-replica]", "targets: [source-replic]", "unknown link"),
        ("clients: {source: 1}", "clients: {source: 1}\nreads: {source: leaf}", "unknown node of async 'leaf'"),
    ],
)
def test_names_in_a_step_of_several_faults_are_checked(refused, old, new, found):
    """As those of a single one."""
    assert found in refused(parse_drill, "test", catalogue.topology("async"), TWO.replace(old, new), KINDS).found


class Told:
    """A fault that follows the test's instructions; its recovery may fail."""

    def __init__(self, name, said, fails=False):
        self.name, self.said, self.fails = name, said, fails

    def inject(self):
        self.said.append(f"{self.name} acts")

    def verify(self):
        return [Proof(what=self.name, expected="on", found="on", ok=True)]

    def recover(self):
        self.said.append(f"{self.name} undone")
        if self.fails:
            raise LabError(f"{self.name} cannot be undone")

    def verify_recovered(self):
        return [Proof(what=self.name, expected="off", found="off", ok=True)]

    def close(self):
        self.said.append(f"{self.name} closed")


def test_faults_together_strike_at_their_moments_and_are_undone_backwards(fake_world):
    """All are proved."""
    fake_world()
    said = []
    both = FaultSchedule([(0.0, Told("first", said)), (2.0, Told("second", said))])

    both.inject()
    assert [proof.what for proof in both.verify()] == ["first", "second"]
    both.recover()
    both.close()

    assert sorted(said[:2]) == ["first acts", "second acts"]
    assert said[2:] == ["second undone", "first undone", "first closed", "second closed"]


def test_a_fault_that_cannot_be_undone_does_not_keep_the_others(refused):
    """Its error is told once they are."""
    said = []
    both = FaultSchedule([(0.0, Told("first", said)), (0.0, Told("second", said, fails=True))])

    with pytest.raises(LabError, match="second cannot be undone"):
        both.recover()

    assert said == ["second undone", "first undone"]


def test_one_of_several_faults_that_proves_nothing_is_doubted():
    """The proofs of the others do not stand for it."""
    said = []
    silent = Told("second", said)
    silent.verify = silent.verify_recovered = list
    both = FaultSchedule([(0.0, Told("first", said)), (0.0, silent)])

    doubts = [proof.doubt for proof in [*both.verify(), *both.verify_recovered()]]
    assert doubts == [
        None,
        "Told acts: expected a proof, found none",
        None,
        "Told is removed: expected a proof, found none",
    ]
