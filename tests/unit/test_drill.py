"""Are drills read strictly, judged by their evidence alone, and never green where something is not known?"""

from types import SimpleNamespace

import msgspec
import pytest
from replication_lab.faults.schedule import Together
from replication_lab.model import drill, drill_result
from replication_lab.model.drill import Expectation, parse_drill
from replication_lab.model.drill_result import judge
from replication_lab.model.errors import LabError
from replication_lab.model.evidence import Acted, Evidence
from replication_lab.model.fault import links_of
from replication_lab.model.history import Copy
from replication_lab.model.proof import Proof
from replication_lab.model.record import Record
from replication_lab.model.record import encode as encode_event
from replication_lab.model.verdict import Verdict, exit_code
from replication_lab.probes import forbidden_logs
from replication_lab.replication.galera import how_returned
from replication_lab.report.drill_text import text
from replication_lab.runner import drill as drill_run
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

from tests.fakes.parts import LabOfNames

from synthetic_drill import CUT, FILE, GALERA, HISTORY, KINDS, Upped, evidence, parsed, summed_up

DOCS = catalogue.ROOT / "docs"
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
    assert {"lost", "lost_s"} & figures
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


def test_the_documented_faults_are_those_that_there_are():
    """docs/drills.md has a row for each, of what it says of itself."""
    head = "| fault | targets | what it does | its proof |\n|---|---|---|---|\n"
    rows = (DOCS / "drills.md").read_text().partition(head)[2].partition("\n\n")[0].splitlines()

    assert sorted(rows) == sorted(
        f"| `{name}` | {kind.targets} | {kind.does} | {kind.proof} |" for name, kind in KINDS.items()
    )


def test_the_clock_of_a_virtual_machine_is_refused(refused):
    """Only a server in a container of its own can have its own."""
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


def test_drbds_options_are_refused_where_there_is_no_drbd(refused):
    """They would do nothing."""
    text = FILE.replace("about:", "options: {disk: [--disk-flushes=no]}\nabout:")

    assert "DRBD options in galera" in refused(parse_drill, "test", catalogue.topology("galera"), text, KINDS).found
    wrong = text.replace("{disk:", "{dsk:").replace("{node1: 1, node2: 1}", "{node1: 1}").replace("[node3]", "[node1]")
    assert "did you mean disk?" in refused(parse_drill, "test", catalogue.topology("drbd"), wrong, KINDS).found


def test_who_serves_first_is_said_only_where_a_cluster_manager_chooses(refused):
    """Elsewhere the key would do nothing."""
    text = FILE.replace("about:", "serves: node2\nabout:").replace("[node3]", "[node1-node2]")

    assert parse_drill("test", catalogue.topology("drbd-ha"), text, KINDS).serves == "node2"
    assert (
        "serves needs a cluster manager" in refused(parse_drill, "test", catalogue.topology("drbd"), text, KINDS).found
    )
    wrong = text.replace("serves: node2", "serves: node9")
    assert "'node9'" in refused(parse_drill, "test", catalogue.topology("drbd-ha"), wrong, KINDS).found


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
        ("[node3]", "[]", "cut has no targets"),
        ("fault: cut,", "fault: clock,", "clock with a skew of 0 s"),
        ("fault: cut,", "fault: cut, skew: 5,", "cut with a skew of 5 s"),
        ("fault: cut,", "fault: clock, skew: soon,", "skew: Expected `int`, got `str`"),
        ("fault: cut,", "fault: cut, toxic: wan-85ms,", "cut with the toxic wan-85ms"),
        ("fault: cut,", "fault: disk-full,", "disk-full in galera, where not every target has disks of its own"),
        ("fault: cut,", "fault: disk-fail,", "disk-fail in galera, where not every target is on RAID1"),
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


def test_a_record_of_schema_2_has_settings_as_keys_of_its_strikes():
    """They are read as those of today; those that a fault had no use for are left out."""
    strikes = parsed(FILE.replace("fault: cut, targets: [node3]", CLOCK)).steps
    older = b'"skew":60,"toxic":"","at"'
    evidence = Evidence(drill=parsed(), at="now", acted=[Acted(strikes[0], 1, 2, 3, 4, 5)])
    line = encode_event(evidence)
    assert (now := b'"settings":{"skew":60},"at"') in line

    assert Record.parse([line.replace(now, older)]).events == Record.parse([line]).events == (evidence,)


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
    assert parsed().lasting(9).steps[0].seconds == 9
    assert parsed().lasting(None) == parsed()
    refused(drill_set.chosen, "galera", None, 0.0)


def test_names_that_are_none_are_refused(refused):
    """Topology, drill, and a topology without drills."""
    assert "unknown topology" in refused(drill_set.chosen, "galerra", None, None).found
    assert "did you mean kill-node" in refused(drill_set.chosen, "galera", "kill-nod", None).found
    assert "has no drills" in refused(drill_set.chosen, "galera-2", None, None).found


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_drill_that_went_as_it_should_holds():
    """Exit status 0."""
    result = judge(evidence(), HISTORY)

    assert [one.verdict for one in result.judgements] == [Verdict.HOLDS, Verdict.HOLDS]
    assert result.exit_code == 0
    assert (result.figures["view.node3"], result.figures["histories"]) == ("non-Primary", 1)
    assert result.figures["redundancy_back_s"] == 0.5


def test_a_lost_row_refutes():
    """Exit status 1: it was expected to hold."""
    result = judge(evidence(copies=[Copy("node1", [(0, 8)])]), HISTORY)

    assert result.judgements[0].verdict is Verdict.REFUTED
    assert (result.judgements[0].measured, result.exit_code) == (1, 1)


def test_every_drill_of_a_replicated_disk_compares_both_of_them():
    """Rows are read where the server is; the other disk may differ all the same."""
    drills = [each for name in ("drbd", "drbd-ha") for each in drill_set.known()[name]]

    assert drills
    for each in drills:
        assert [wanted.equals for wanted in each.expected if wanted.figure == "differing_kib"] == [0], each.name


def test_disks_that_differ_refute():
    """However well all rows were read."""
    equal = Expectation("both disks are equal", "differing_kib", equals=0)
    what = msgspec.structs.replace(parsed(), expected=[equal])
    verdicts = [
        judge(evidence(drill=what, compared=compared), HISTORY).judgements[0].verdict
        for compared in ({"differing_kib": 0}, {"differing_kib": 4}, {})
    ]

    assert verdicts == [Verdict.HOLDS, Verdict.REFUTED, Verdict.UNKNOWN]


def test_a_refutation_that_is_known_is_as_expected():
    """The verdict is data, with its reason."""
    known = Expectation("nothing is lost", "lost", equals=0, expect=Verdict.REFUTED, because="it is asynchronous")
    lossy = msgspec.structs.replace(parsed(), expected=[known])

    assert judge(evidence(drill=lossy, copies=[Copy("node1", [(0, 8)])]), HISTORY).exit_code == 0
    assert judge(evidence(drill=lossy), HISTORY).exit_code == 1
    assert "Known: it is asynchronous" in text(summed_up(judge(evidence(drill=lossy), HISTORY)))


def test_a_fault_that_was_not_seen_makes_everything_unknown():
    """With the reason in words; unknown is never green."""
    through = msgspec.structs.replace(CUT, found="a new connection answers", ok=False)
    acted = msgspec.structs.replace(evidence().acted[0], proofs=[through])
    result = judge(evidence(acted=[acted]), HISTORY)

    assert result.judgements[0].verdict is Verdict.UNKNOWN
    assert "a new connection answers" in result.judgements[0].reason
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("changes", "history", "why"),
    [
        ({"doubts": ["node3 did not come back"]}, HISTORY, "did not come back"),
        ({"copies": []}, HISTORY, "the checker of lost failed"),
        ({}, [], "no statement was acknowledged"),
    ],
)
def test_what_is_not_known_is_unknown(changes, history, why):
    """A lab that failed, a checker that crashed, a load that did nothing."""
    result = judge(evidence(**changes), history)

    assert result.judgements[0].verdict is Verdict.UNKNOWN
    assert why in result.judgements[0].reason
    assert result.exit_code == 2


def test_a_figure_that_is_missing_or_of_another_kind_is_unknown():
    """A text cannot be at least a number; an error that never came counts as zero."""
    asked = [
        Expectation("a", "returned.node3", equals="IST"),
        Expectation("b", "view.node3", at_least=3),
        Expectation("c", "during.node1.error.1047", equals=0),
    ]
    result = judge(evidence(drill=msgspec.structs.replace(parsed(), expected=asked)), HISTORY)

    assert [one.verdict for one in result.judgements[:3]] == [Verdict.UNKNOWN, Verdict.UNKNOWN, Verdict.HOLDS]


def test_the_exit_status_is_the_worst():
    """A changed verdict before an unknown one before none."""
    good, bad = judge(evidence(), HISTORY), judge(evidence(copies=[Copy("node1", [(0, 8)])]), HISTORY)
    unknown = drill_result.not_done(parsed(), "killed")

    held, open_, changed = (each.judgements for each in (good, unknown, bad))

    assert [exit_code(each) for each in ([], held, held + open_, open_ + changed)] == [2, 0, 2, 1]


# --- how nodes come back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "by"),
    [
        ("WSREP: Shifting DONOR/DESYNCED -> JOINED (TO: 3)\nWSREP: Shifting JOINED -> SYNCED (TO: 3)", None),
        ("WSREP: Shifting SYNCED -> OPEN (TO: 18)\nWSREP: Receiving IST: 4 writesets, seqnos 19-22", ("IST", 4)),
        ("WSREP: Shifting CLOSED -> OPEN (TO: 0)\nWSREP: Shifting JOINED -> SYNCED (TO: 13)", ("nothing", 0)),
        ("WSREP: Shifting OPEN -> PRIMARY\n[INFO] mariabackup SST completed on joiner", ("SST", 0)),
        ("[galera] leads: nobody is further than U:7\nWSREP: Shifting CLOSED -> OPEN (TO: 0)", ("led", 0)),
    ],
)
def test_a_nodes_log_tells_how_it_came_back(log, by):
    """A donor never left; a joiner says what it was sent."""
    assert how_returned(log) == by


# --- drills on a lab that misbehaves ----------------------------------------------------------------------------------


class EndedLab(LabOfNames):
    """A lab whose nodes have ended."""

    topology = GALERA

    def state_of(self, name):
        return "exited", 1


def test_a_node_that_ends_instead_of_coming_back_is_not_waited_for(refused):
    """Its exit status is the reason."""
    going = drill_run.DrillRun(EndedLab(), parsed(), 0, print)

    assert "exited with status 1 instead of restarting" in refused(going._until_back, 0.0).found


class DeadLab(LabOfNames):
    """A lab whose servers do not answer."""

    topology = GALERA

    def server(self, name):
        raise LabError(f"{name} does not answer", "a connection")

    def logs(self, name, lines):
        if name == "node2" and self.reads_no_more:
            raise LabError("gone", "a container")
        return f"{lines} lines of {name}"

    reads_no_more = False


class Variables:
    """A server that has global variables and nothing else."""

    def __init__(self):
        self.has = {"innodb_flush_log_at_trx_commit": "1", "binlog_format": "ROW"}

    def settings(self, *names):
        return {name: str(self.has[name]) for name in names}

    def set_global(self, **values):
        self.has.update(values)


class SettableLab(LabOfNames):
    """A lab of such servers."""

    topology = GALERA

    def __init__(self):
        self.servers = {node.name: Variables() for node in GALERA.nodes}

    def server(self, name):
        return self.servers[name]


def test_settings_are_put_on_every_node_and_taken_back():
    """Also after a failure; the server's words become the numbers that it takes."""
    lab, wanted = SettableLab(), {"innodb_flush_log_at_trx_commit": 0, "binlog_format": "MIXED"}
    going = drill_run.DrillRun(lab, msgspec.structs.replace(parsed(), settings=wanted), 0, print)

    with pytest.raises(LabError, match="broken"):
        with going._settings():
            assert [server.has for server in lab.servers.values()] == [wanted] * 3
            raise LabError("broken")
    assert [server.has["innodb_flush_log_at_trx_commit"] for server in lab.servers.values()] == [1, 1, 1]
    assert {server.has["binlog_format"] for server in lab.servers.values()} == {"ROW"}


def test_an_interruption_that_a_failing_undo_covers_stops_the_drill(monkeypatch, tmp_path):
    """It is no doubt about the lab: the drills after it are not done either."""

    def stopped(*_):
        try:
            raise KeyboardInterrupt("SIGINT")
        finally:
            raise LabError("node3 cannot be started", "a node that serves")

    monkeypatch.setattr(drill_run, "DrillRun", lambda *_: SimpleNamespace(run=stopped))
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        drill_run.carry_out(None, parsed(), 7, tmp_path / "ledger", lambda _: None)


def test_a_lab_that_fails_is_a_doubt_not_a_crash(monkeypatch, tmp_path):
    """The reason is in the evidence, and so in every verdict; logs are kept, and their ends told, for CI."""
    monkeypatch.setattr(drill_run, "WHOLE_SECONDS", 0)
    lab, told = DeadLab(), []

    def tell(line):
        told.append(line)
        lab.reads_no_more = "to be Synced" in line or lab.reads_no_more

    found = drill_run.carry_out(lab, parsed(), 7, tmp_path / "ledger", tell)

    assert "to be Synced" in found.doubts[0]
    assert "    25 lines of node1" in told and any("node2: does not answer" in line for line in told)
    assert (tmp_path / "test-node1.log").read_text() == "all lines of node1"
    assert not (tmp_path / "test-node2.log").exists()
    assert judge(found, []).judgements[0].verdict is Verdict.UNKNOWN


def test_who_serves_first_is_arranged_before_anything_is_written(tmp_path, monkeypatch):
    """As soon as every node is whole."""
    what = msgspec.structs.replace(parsed(), serves="node2")
    going = drill_run.DrillRun(DeadLab(), what, 0, print)
    monkeypatch.setattr(going, "_until_whole", lambda: None)
    monkeypatch.setattr(going.nodes, "let_serve", refuse_to_serve)

    with pytest.raises(LabError, match="node2 does not want to"):
        going.run(tmp_path / "ledger")
    assert going.seen == {}


def refuse_to_serve(name):
    raise LabError(f"{name} does not want to", "another node")


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

    assert [strike.fault for strike in step.strikes] == ["kill", "cut"]
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
    both = Together([(0.0, Told("first", said)), (2.0, Told("second", said))])

    both.inject()
    assert [proof.what for proof in both.verify()] == ["first", "second"]
    both.recover()
    both.close()

    assert sorted(said[:2]) == ["first acts", "second acts"]
    assert said[2:] == ["second undone", "first undone", "first closed", "second closed"]


def test_a_fault_that_cannot_be_undone_does_not_keep_the_others(refused):
    """Its error is told once they are."""
    said = []
    both = Together([(0.0, Told("first", said)), (0.0, Told("second", said, fails=True))])

    with pytest.raises(LabError, match="second cannot be undone"):
        both.recover()

    assert said == ["second undone", "first undone"]


# --- logs -------------------------------------------------------------------------------------------------------------


class LoggingLab(LabOfNames):
    """A lab of one node whose log grows."""

    topology = catalogue.topology("single")

    def __init__(self):
        self.text = "an Assertion failure of yesterday\n"

    def logs(self, name, lines):
        return self.text


def test_what_no_log_may_hold_is_found_from_the_drills_beginning_on():
    """With its name and its line; what was there before is not this drill's."""
    lab = LoggingLab()
    watch, tolerant = forbidden_logs.Watch(lab), forbidden_logs.Watch(lab, ["assertion"])
    assert watch.found() == []
    lab.text += "InnoDB: Assertion failure in file buf0buf.cc line 7\nready for connections\n"

    assert watch.found() == ["server: assertion: InnoDB: Assertion failure in file buf0buf.cc line 7"]
    assert tolerant.found() == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("240101 [ERROR] mysqld got signal 11 ;", "crash"),
        ("[ERROR] Slave I/O: Got fatal error 1236 from master when reading data", "fatal-from-source"),
        ("[ERROR] Got fatal error 1236 from source when reading data from binary log", "fatal-from-source"),
        ("The slave I/O thread stops because master and slave have equal MySQL server UUIDs", "same-server"),
        ("InnoDB: Database page corruption on disk", "corruption"),
        ("Slave SQL: Could not execute Write_rows_v1 event on table lab.ledger", "broken-replication"),
    ],
)
def test_servers_words_for_disasters_are_known(line, name):
    """In the spellings of both families."""
    lab = LoggingLab()
    watch = forbidden_logs.Watch(lab)
    lab.text += line

    assert watch.found()[0].split(": ")[1] == name


@pytest.mark.parametrize(
    "line",
    [
        "InnoDB: Starting crash recovery from checkpoint LSN=47163",
        "[Warning] Aborted connection 12 to db: 'lab' user: 'lab' (Got timeout reading communication packets)",
        "[ERROR] Slave I/O: error reconnecting to master - retry-time: 1 maximum-retries: 100000, Error_code: 2003",
        "[Note] Recovering after a crash using bin",
        "Aborted connection 13 to db: 'unconnected' (A slave with the same server_id is already connected)",
    ],
)
def test_what_a_fault_makes_any_server_say_is_not_forbidden(line):
    """A drill would be refuted by its own doing."""
    lab = LoggingLab()
    watch = forbidden_logs.Watch(lab)
    lab.text += line

    assert watch.found() == []


def test_a_forbidden_line_refutes_every_drill():
    """Whatever its file expects; it is printed."""
    result = judge(evidence(forbidden=["node1: crash: mysqld got signal 11"]), HISTORY)

    assert (result.judgements[-1].verdict, result.exit_code) == (Verdict.REFUTED, 1)
    assert "FORBIDDEN     node1: crash: mysqld got signal 11" in text(summed_up(result))


def test_a_name_that_is_no_forbidden_pattern_is_refused(refused):
    """Tolerating nothing must not look like tolerating something."""
    assert "did you mean crash" in refused(forbidden_logs.Watch, LoggingLab(), ["crashh"]).found


# --- labs of a run's own ----------------------------------------------------------------------------------------------


@pytest.fixture
def ups(monkeypatch):
    """Return the list of what `labs.up` returns, one after another: a lab, or an error."""
    answers = []

    def up(*_, **__):
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(drill_set.up, "up", up)
    return answers


def test_drills_share_a_lab_until_it_is_renewed(ups):
    """The last one is gone with the block."""
    first, second = Upped(), Upped()
    ups += [first, second]

    with drill_set.Labs("async", "mariadb", print) as own:
        assert own.lab() is own.lab() is first
        own.renew()
        assert first.gone and own.lab() is second
    assert second.gone


@pytest.mark.parametrize(
    ("drill", "doubts", "renewed"),
    [
        pytest.param(("async", "kill-replica"), [], False, id="as it was"),
        pytest.param(("async", "kill-replica"), ["the replica did not come back"], True, id="in doubt"),
        pytest.param(("async", "lose-source"), [], True, id="another source"),
    ],
)
def test_a_lab_on_which_nothing_can_be_proved_any_more_is_taken_away(
    ups, monkeypatch, tmp_path, drill, doubts, renewed
):
    """The next drill has one of its own."""
    lab, what = Upped(), drill_set.load(*drill)
    ups.append(lab)
    monkeypatch.setattr(drill_set, "carry_out", lambda *_: evidence(drill=what, doubts=doubts))
    own = drill_set.Labs("async", "mariadb", print)

    assert own.do(what, 7, tmp_path / "ledger").doubts == doubts
    assert lab.gone is renewed


def test_a_lab_that_was_not_proved_is_tried_again(ups, refused):
    """A few times: a machine has busy moments."""
    late = LabError("the link is too slow", "a proof")
    ups += [late, Upped(), late, late, late]

    with drill_set.Labs("async", "mariadb", print) as own:
        own.lab()
    assert "too slow" in refused(drill_set.Labs("async", "mariadb", print).lab).found
    assert ups == []
