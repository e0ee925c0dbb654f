"""Is a case measured on the emulated disks that it asks for, and are their limits proved over its load?"""

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab import runs as running
from replication_lab.model.question.question import Question
from replication_lab.world.disks.array import Array

LEVELS = {"source.storage": ["none", "raid0", "raid1"]}


def question(vary=None, **others) -> Question:
    return Question(**{"topologies": ["semisync"], "vary": {"clients": ["1", "4"]} if vary is None else vary} | others)


def labs_of(asked: Question) -> list[dict[str, tuple[str, int, str]]]:
    """Return {node: (level, disks, model)} of each case's lab."""
    found = experiments.asked(asked)
    return [
        {node: (each.level, each.members, each.disk) for node, each in found.lab_of(case).storage or ()}
        for case in found.cases
    ]


def test_a_disk_without_a_level_is_a_single_one():
    """The example of the page: all cases share one lab, whose source is on one disk."""
    asked = question(settings={"source.disk": "ssd"})

    assert labs_of(asked) == [{"source": ("single", 1, "ssd")}] * 2
    assert len(experiments.asked(asked).labs(experiments.asked(asked).preset("ask"), "mariadb")) == 1


def test_each_level_has_a_lab_of_its_own():
    """The disk's model is that of the levels that have disks."""
    asked = question({**LEVELS, "clients": ["1", "4"]}, settings={"source.disk": "sata-7200"})
    found = experiments.asked(asked)

    assert labs_of(asked)[::2] == [{}, {"source": ("raid0", 2, "sata-7200")}, {"source": ("raid1", 2, "sata-7200")}]
    assert [lab.about for lab in found.labs(found.preset("ask"), "mariadb")] == [
        "semisync",
        "semisync, source on raid0 of 2 sata-7200",
        "semisync, source on raid1 of 2 sata-7200",
    ]


def test_a_nodes_own_disks_go_before_those_of_all_replicas():
    """As with a server's variables; the source is no replica."""
    asked = question(
        topologies=["fanout"],
        settings={"storage": "raid0:3", "far.storage": "raid1", "far.disk": "unlimited"},
    )

    assert labs_of(asked)[0] == {
        "far": ("raid1", 2, "unlimited"),
        "near": ("raid0", 3, "ssd"),
    }


def test_disks_are_no_variables_of_a_server():
    """No server gets a statement SET GLOBAL disk."""
    found = experiments.asked(question(settings={"source.disk": "ssd", "sync_binlog": "1"}))

    assert found.cases[0].state.servers.variables == {("", "sync_binlog"): "1"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"settings": {"source.disk": "sdd"}}, "unknown disk 'sdd'; did you mean ssd?"),
        ({"settings": {"source.storage": "raid5"}}, "unknown level of storage 'raid5'"),
        ({"settings": {"source.storage": "raid0:9"}}, "raid0 of 9 disk(s)"),
        ({"settings": {"source.storage": "raid0:two"}}, "'raid0:two' has no valid number of disks"),
        ({"settings": {"source.storage": "single:2"}}, "single of 2 disk(s)"),
        ({"settings": {"sauce.disk": "ssd"}}, "semisync has no node 'sauce'"),
        ({"settings": {"source.storage": "none", "source.disk": "ssd"}}, "source has no emulated disks"),
        ({"vary": {**LEVELS, "source.disk": ["ssd", "sata-7200"]}}, "source has no emulated disks"),
        ({"topologies": ["drbd"], "settings": {"node1.disk": "ssd"}}, "whose virtual machines have their own disk"),
        ({"topologies": ["drbd"], "settings": {"node1.storage": "none"}}, "whose virtual machines have their own disk"),
        ({"topologies": ["single"], "settings": {"disk": "ssd"}}, "single has no replicas"),
        ({"vary": {"source.disk": ["ssd", "ssd"]}}, "source.disk has a value twice"),
    ],
)
def test_disks_that_cannot_be_are_refused(asked, said, refused):
    """One message, before anything starts."""
    error = refused(lambda: experiments.asked(question(**asked)))

    assert said in f"{error}"


# --- answered in a model of a lab -------------------------------------------------------------------------------------


def ask(ran, asked, **troubles):
    return ran(experiments.asked(asked), preset="ask", **troubles)


def test_the_limits_of_the_disks_are_proved_over_each_load(ran):
    """Direct I/O proves the limits before the load, the disks' settings after it; the disks' work is recorded."""
    _, record, _ = ask(ran, question(settings={"source.disk": "ssd"}))

    for measurement in record.measurements:
        proved = {proof.what: proof.ok for proof in measurement.proofs}
        assert measurement.reasons_to_doubt == []
        assert proved["source's data are on single of 1 ssd"]
        assert proved["source-disk1 keeps its limits"]
        assert proved["no other command changed the disks of source"]
        assert "source_disk_writes_per_second" in measurement.figures


def test_levels_are_measured_in_the_same_rounds(ran):
    """The record has a lab for each, with its disks."""
    summary, record, world = ask(ran, question(LEVELS))

    assert [row.changed for row in summary.effects] == ["source.storage=raid0", "source.storage=raid1"]
    assert world.came_up == ["mariadb"] * 3 == world.taken_down
    assert [lab.settings.get("storage source", "").partition(" by ")[0] for lab in record.labs("mariadb")] == [
        "",
        "raid0 of 2 ssd",
        "raid1 of 2 ssd",
    ]
    proofs = {proof.what for m in record.of("mariadb", "source.storage=none") for proof in m.proofs}
    assert not any("disk" in what for what in proofs - set(world.obligations))


def limits_changed(lab, _load):
    if "source" in lab.arrays:
        lab.arrays["source"].disks[0].exec_run(["spindle", "set", "write_us=1"])


def test_limits_that_somebody_changes_make_it_unknown(ran):
    """The sabotage: another administrator makes the disk faster during the load."""
    summary, _, _ = ask(ran, question(settings={"source.disk": "ssd"}), meanwhile=limits_changed)

    assert summary.verdict == "UNKNOWN" and not summary.effects[0].known
    assert "no other command changed the disks of source" in summary.claims[0].reason


def test_a_disk_that_is_not_as_slow_as_it_says_makes_it_unknown(ran):
    """The sabotage: it takes the limits, and does not act on them."""

    def too_fast(lab, _load):
        disk = lab.arrays["source"].disks[0]
        disk.asleep, disk.acting = True, {**disk.acting, "write_us": 1}

    summary, _, _ = ask(ran, question(settings={"source.disk": "ssd"}), meanwhile=too_fast)

    assert summary.verdict == "UNKNOWN"
    assert "source-disk1 keeps its limits" in summary.claims[0].reason


def test_data_that_are_not_on_the_disks_make_it_unknown(ran, monkeypatch):
    """The sabotage: the server's files are elsewhere."""
    monkeypatch.setattr(Array, "is_mounted", lambda _: False)
    summary, _, _ = ask(ran, question(settings={"source.disk": "ssd"}))

    assert summary.verdict == "UNKNOWN"
    assert "source's data are on single of 1 ssd" in summary.claims[0].reason


def test_a_record_is_judged_again_with_its_disks(ran):
    """Without servers, and by the file of the question, too."""
    asked = question(LEVELS, settings={"source.disk": "sata-7200"})
    _, record, _ = ask(ran, asked)
    again = experiments.of(record)

    assert record.run.question == asked
    assert [again.lab_of(case) for case in again.cases] == [
        experiments.asked(asked).lab_of(case) for case in experiments.asked(asked).cases
    ]


# --- the options ------------------------------------------------------------------------------------------------------


def asked_by(monkeypatch, *arguments) -> Question:
    """Return the question that a command asks."""
    found = []

    def stop(asked, *_others):
        found.append(asked.experiment.asked)
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run", stop)
    CliRunner().invoke(cli.cli, ["ask", *arguments])
    return found[0] if found else None


def test_options_are_settings(monkeypatch):
    """--disk and --storage, of a node or of all replicas."""
    found = asked_by(
        monkeypatch,
        *("semisync", "--vary", "sync_binlog=0,1", "--disk", "source=ssd"),
        *("--storage", "raid0:3", "--disk", "sata-7200"),
    )

    assert found.settings == {"source.disk": "ssd", "storage": "raid0:3", "disk": "sata-7200"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--vary", "engine=mariadb,mysql-8.0", "--engine", "mariadb"), "--engine and --vary engine=… both name"),
        (("--disk", "source=ssd", "--disk", "source=sata-7200"), "--disk 'source=sata-7200' names a node twice"),
        (("--disk", "source="), "--disk 'source=' names no value"),
        (("--disk", "source=ssd", "--set", "source.disk=sata-7200"), "source.disk is given as sata-7200 and as ssd"),
        (("--rtt", "40ms", "--set", "rtt=10ms"), "rtt is given as 10ms and as 40ms"),
        (("--disk", "source=ssd", "--vary", "source.disk=ssd,sata-7200"), "source.disk is both varied and set"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments, said):
    """None is accepted and ignored."""
    clients = () if "--vary" in arguments else ("--vary", "clients=1,4")
    found = CliRunner().invoke(cli.cli, ["ask", "semisync", *clients, *arguments])

    assert said in f"{found.exception}{found.output}"


@pytest.mark.parametrize(("topology", "node"), [("async", "replica"), ("galera", "node2"), ("single", "server")])
def test_any_node_of_a_topology_may_have_disks(ran, topology, node):
    """Also a cluster's member, and a server alone."""
    asked = question({f"{node}.disk": ["unlimited", "plain-400"]}, topologies=[topology])
    summary, record, _ = ask(ran, asked)

    assert [row.changed for row in summary.effects] == [f"{node}.disk=plain-400"]
    assert not any(m.reasons_to_doubt for m in record.measurements)
    assert all(f"{node}_disk_busy" in m.figures for m in record.measurements)
