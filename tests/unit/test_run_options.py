"""Does `lab run` do what its options say, say so in record and report, and refuse what it cannot do?"""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab import runs as running
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.record.chosen import Only
from replication_lab.report import wording
from replication_lab.world import catalogue
from replication_lab.world.docker import engine

WAN = experiments.load("semisync_wan")
TWO_CASES = ["none", "async-85ms"]


def chosen(settings=None, *, rtt="", preset="least", **only):
    """Return semisync_wan with these options."""
    return experiments.chosen(experiments.load("semisync_wan", rtt), preset, settings or {}, Only(**only))


def answers(summary):
    """Return each claim that was judged with its verdict."""
    return {claim.id: claim.verdict for claim in summary.claims}


# --- cases, claims and rounds -----------------------------------------------------------------------------------------


def test_only_the_named_cases_are_measured(ran):
    """The claims that need no other case are judged, and compared with what is published; the others say why not."""
    summary, record, _ = ran(chosen(cases=TWO_CASES), preset="least")
    reasons = {left.claim: left.reason for left in summary.not_judged}

    assert {found.case for found in record.measurements} == set(TWO_CASES)
    assert set(answers(summary)) == {"async-costs-little", "async-does-not-wait"}
    assert reasons["link-is-85ms"] == "left out by --case"
    assert len(reasons) == len(WAN.claims) - 2
    assert summary.conditions == {} and summary.source == WAN.data.published.source


def test_a_case_that_the_preset_leaves_out_can_be_named(ran):
    """The user's choice takes precedence over the preset's."""
    _, record, _ = ran(chosen(cases=["after-sync-proxy"]), preset="least")

    assert {found.case for found in record.measurements} == {"after-sync-proxy"}


def test_only_the_named_claims_are_judged_by_the_cases_that_they_need(ran):
    """Also where the measured cases could decide other claims."""
    summary, record, _ = ran(chosen(claims=["async-costs-little"]), preset="least")
    reasons = {left.claim: left.reason for left in summary.not_judged}

    assert {found.case for found in record.measurements} == set(TWO_CASES)
    assert answers(summary) == {"async-costs-little": Verdict.HOLDS} and summary.exit_code == 0
    assert reasons["async-does-not-wait"] == "left out by --claim"


@pytest.mark.parametrize(("rounds", "plan"), [(2, (2, 2)), (5, (3, 5)), (30, (3, 30))])
def test_rounds_are_the_maximum(rounds, plan):
    """A maximum below the plan's first look moves that look, too."""
    found = chosen(rounds=rounds).preset("least")

    assert (found.min_rounds, found.max_rounds) == plan


def test_a_run_takes_no_more_rounds_than_asked_for(ran):
    """The record has the plan, so that the same interval is computed again."""
    summary, record, _ = ran(chosen(cases=["none"], rounds=2), preset="least", noisy=lambda _load: True)

    assert {found.round for found in record.measurements} == {1, 2}
    assert record.run.settings["max_rounds"] == 2 and record.run.only.rounds == 2
    assert summary.only == record.run.only


def test_a_claim_that_the_user_names_is_to_be_decided():
    """The preset spends no round on some claims, unless one is asked for."""
    raid = experiments.load("raid_replica")
    name = "raid1-lag-grows"

    assert name in raid.preset("brief").undecidable
    assert name not in experiments.chosen(raid, "brief", {}, Only(claims=[name])).preset("brief").undecidable

    threads, of_one = experiments.load("semisync_threads"), "how-many-times-after-commit"
    asked = experiments.chosen(threads, "quick", {}, Only(claims=[of_one])).preset("quick").undecidable
    assert threads.preset("quick").undecidable and not asked


def test_report_and_record_say_what_was_chosen(ran, runs):
    """The record alone is enough to judge the same part again."""
    summary, _, _ = ran(chosen(cases=TWO_CASES, claims=["async-costs-little"], rounds=4), preset="least")
    again = running.judge("latest")

    assert (
        "restricted by the user: at most 4 rounds; only the cases none, async-85ms; only the claims async-costs-little"
        in wording.warnings(summary)
    )
    assert answers(again) == answers(summary) and again.only == summary.only
    assert [left.reason for left in again.not_judged] == [left.reason for left in summary.not_judged]


def test_without_options_nothing_is_said(undisturbed):
    """A run of a whole preset is not restricted."""
    summary, record = undisturbed(replace(WAN), "least")

    assert record.run.only == Only() and not any("restricted" in line for line in wording.warnings(summary))


# --- variables --------------------------------------------------------------------------------------------------------


def test_variables_are_proved_and_only_laws_are_judged(ran, runs):
    """Set on every server in every case; nothing is compared with published figures, and the record says why."""
    found = chosen({"sync_binlog": "100", "replica.innodb_io_capacity": "300"})
    # What real engines refute of the laws is data, and left out.
    summary, record, _ = ran(replace(found, data=found.data.under_other_conditions([], "")), preset="least")
    again = running.judge("latest")
    told = {left.claim: left.reason for left in summary.not_judged}

    assert summary.conditions == {"sync_binlog": "100", "replica.innodb_io_capacity": "300"} == again.conditions
    for measured in record.measurements:
        assert {proof.what for proof in measured.proofs if proof.ok} >= {
            "source has sync_binlog=100",
            "replica has sync_binlog=100",
            "replica has innodb_io_capacity=300",
        }
    assert {claim.verdict for claim in summary.claims} == {Verdict.HOLDS}
    assert {claim.published for claim in summary.claims} == {None}
    changed = "conditions changed (sync_binlog 100, replica.innodb_io_capacity 300)"
    assert told["async-costs-little"] == f"not compared: {changed}"
    assert answers(again) == answers(summary)


def test_variables_and_another_round_trip_change_together():
    """The source is named once, and so is where a verdict is known."""
    found = chosen({"sync_binlog": "1"}, rtt="40ms")

    assert found.conditions == {"rtt": "40ms", "sync_binlog": "1"}
    assert found.data.published.source.count("not compared") == 1
    assert all(known.because.count("known ") == 1 for known in found.data.expected)


def test_a_variable_that_somebody_changes_meanwhile_makes_it_unknown(ran):
    """The sabotage: another administrator sets it during the load."""
    found = chosen({"sync_binlog": "100"}, claims=["link-is-85ms"])
    summary, _, _ = ran(
        found,
        preset="least",
        meanwhile=lambda lab, _load: lab.node("source").server().set_global(sync_binlog=0),
    )

    assert answers(summary) == {"link-is-85ms": Verdict.UNKNOWN}
    assert "source has sync_binlog=100: expected 100, found 0" in summary.claims[0].reason


def test_variables_are_as_the_experiment_sets_them_afterwards(ran):
    """semisync_wan sets its own value before the first round."""
    seen = []
    found = chosen({"sync_binlog": "100"}, claims=["link-is-85ms"])
    ran(found, preset="least", meanwhile=lambda lab, _load: seen.append(lab))

    assert seen[-1].node("source").server().settings("sync_binlog") == {"sync_binlog": "0"}


def test_a_variable_that_no_server_has_ends_the_run_before_the_first_round(ran, refused):
    """Not a run in which every measurement is in doubt."""
    seen = []
    error = refused(
        ran, chosen({"no_such_variable": "1"}), preset="least", meanwhile=lambda _lab, load: seen.append(load)
    )

    assert "no_such_variable" in error.found and seen == []


# --- files and disks --------------------------------------------------------------------------------------------------

FILE = GivenFile("ours.cnf", "[mysqld]\ninnodb_read_io_threads = 8\n")


def test_a_file_is_proved_and_judged_again_from_the_record(ran, runs):
    """The servers are restarted with it; the record holds its text."""
    found = experiments.chosen(WAN, "least", {"replica.cnf": "ours.cnf"}, Only(claims=["link-is-85ms"]), cnf=[FILE])
    summary, record, _ = ran(found, preset="least")
    again = running.judge("latest")

    assert record.run.cnf == [FILE] and summary.conditions == {"replica.cnf": "ours.cnf"} == again.conditions
    for measured in record.measurements:
        proved = {proof.what for proof in measured.proofs if proof.ok}
        assert "replica has innodb_read_io_threads=8 (ours.cnf line 2)" in proved
        assert not any(what.startswith("source has innodb_read_io_threads") for what in proved)
    assert answers(again) == answers(summary) == {"link-is-85ms": Verdict.HOLDS}


def test_disks_are_those_of_every_case_and_their_limits_are_proved(ran, runs):
    """Before and after each load; the report says what was changed."""
    summary, record, _ = ran(chosen({"source.disk": "ssd"}, claims=["link-is-85ms"]), preset="least")

    assert summary.conditions == {"source.disk": "ssd"} == running.judge("latest").conditions
    for measured in record.measurements:
        proved = {proof.what: proof.ok for proof in measured.proofs}
        assert proved["source's data are on single of 1 ssd"] and proved["source-disk1 keeps its limits"]
    assert answers(summary) == {"link-is-85ms": Verdict.HOLDS}


def test_limits_that_somebody_changes_make_it_unknown(ran):
    """The sabotage: another administrator makes the disk faster during the load."""

    def faster(lab, _load):
        lab.arrays["source"].disks[0].exec_run(["spindle", "set", "write_us=1"])

    found = chosen({"source.disk": "ssd"}, claims=["link-is-85ms"])
    summary, _, _ = ran(found, preset="least", meanwhile=faster)

    assert answers(summary) == {"link-is-85ms": Verdict.UNKNOWN}
    assert "no other command changed the disks of source" in summary.claims[0].reason


@pytest.mark.parametrize("name", ["raid0_disks", "raid_replica", "raid_appliers", "drbd_cost"])
def test_experiments_about_disks_keep_their_own(name, refused):
    """The names of their cases say which disks they are on."""
    found = experiments.load(name)
    node = catalogue.topology(found.lab_of(found.cases[0]).topology).source.name
    error = refused(experiments.chosen, found, "quick", {f"{node}.disk": "ssd"}, Only())

    assert "own disk" in error.found


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "quik"], "unknown preset of experiment semisync_wan 'quik'; did you mean quick?"),
        (["--case", "nonne"], "unknown case of experiment semisync_wan 'nonne'; did you mean none?"),
        (["--claim", "async-costs"], "did you mean async-costs-little?"),
        (["--runs", "1"], "--runs is 1"),
        (["--runs", "0"], "--runs is '0'"),
        (["--runs", "101"], "--runs is 101"),
        (["--set", "sync_binlog"], "--set 'sync_binlog' names no value"),
        (["--set", "sync_binlog=1", "--set", "sync_binlog=0"], "--set names sync_binlog twice"),
        (["--set", "clients=4"], "clients is not a server variable"),
        (["--set", "cnf=/no/such.cnf"], "/no/such.cnf cannot be read"),
        (["--cnf", "/no/such.cnf"], "/no/such.cnf cannot be read"),
        (["--storage", "sauce=raid0"], "unknown node with a server of semisync 'sauce'; did you mean source?"),
        (["--disk", "source=sdd"], "unknown disk 'sdd'; did you mean ssd?"),
        (["--disk", "source=ssd", "--set", "source.disk=ssd"], "source.disk is given as ssd and as ssd"),
        (["--set", "sync_binlog=1;2"], "sync_binlog is '1;2'"),
        (["--set", "sauce.sync_binlog=1"], "unknown node with a server of semisync 'sauce'; did you mean source?"),
        (["--set", "sync_binlog=1", "--claim", "async-costs-little"], "would not be judged: not compared"),
        (["--rtt", "40ms", "--claim", "async-costs-little"], "would not be judged: not compared"),
        (["--case", "none", "--claim", "async-costs-little"], "needs the case async-85ms, which no --case names"),
        (["--engine", "mysql-5.5", "--case", "after-sync-proxy"], "mysql-5.5 has no wait_point"),
        (
            ["--engine", "mysql-5.5,mariadb", "--case", "after-sync-proxy"],
            "next: ./lab run semisync_wan --engine mariadb --case after-sync-proxy",
        ),
        (
            ["--engine", "mysql-5.7", "--preset", "least", "--set", "sync_binlog=1", "--claim", "link-is-85ms"],
            "next: ./lab run semisync_wan --preset least --set sync_binlog=1 --claim link-is-85ms --engine",
        ),
    ],
)
def test_what_an_experiment_has_not_is_refused_before_anything_starts(monkeypatch, runs, arguments, said):
    """No folder, no lab."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("the engine was touched"))

    assert said in str(CliRunner().invoke(cli.cli, ["run", "semisync_wan", *arguments], prog_name="lab").exception)
    assert not runs.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--engine", "mariadb"],
        ["--preset", "quick"],
        ["--runs", "3"],
        ["--case", "none"],
        ["--claim", "x"],
        ["--set", "sync_binlog=1"],
        ["--rtt", "40ms"],
    ],
)
def test_a_questions_file_decides(monkeypatch, arguments):
    """Also where the option repeats the default."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("the engine was touched"))
    found = CliRunner().invoke(cli.cli, ["run", "question.yaml", *arguments], prog_name="lab").exception

    assert f"{arguments[0]} cannot be used with the file of a question" in str(found)
