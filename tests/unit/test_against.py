"""Does --against measure two servers, or one with and without a file, in the same rounds, and find the slower one?"""

import subprocess

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab import runs as running
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.record.chosen import Against, Only
from replication_lab.world import catalogue, journal, lock, own, revisions

from tests.records import golden

CASE = "none"
OTHER = "mariadb-10.11"
CLAIM = f"against:{OTHER}:{CASE}"


def chosen(margin=0.1):
    """Return one case of semisync_wan, measured against another engine."""
    known = experiments.load("semisync_wan")
    return experiments.chosen(known, "least", {}, Only(cases=[CASE]), Against(server=OTHER, margin=margin))


def test_both_servers_are_measured_in_the_same_rounds(ran):
    """Each round has both, so that what drifts meets both."""
    summary, record, world = ran(chosen(), [OTHER, "mariadb"], preset="least")
    rounds = {(found.round, found.engine) for found in record.measurements}

    assert {(1, OTHER), (1, "mariadb"), (2, OTHER), (2, "mariadb")} <= rounds
    assert world.came_up == [OTHER, "mariadb"]
    claim = next(claim for claim in summary.claims if claim.id == CLAIM)
    assert (claim.engine, claim.verdict) == ("mariadb", Verdict.HOLDS)
    assert claim.measured == pytest.approx(1, abs=0.1)


def test_the_other_server_is_not_compared_with_itself(ran):
    """It is the reference; its own claims are judged."""
    summary, _, _ = ran(chosen(), [OTHER, "mariadb"], preset="least")

    assert [left.reason for left in summary.not_judged if left.claim == CLAIM] == [
        f"{OTHER} is the reference of the comparison"
    ]


def test_a_slower_server_is_refuted(ran):
    """If the claim demands nine times the other server's commits, the run ends with status 1."""
    known = chosen()
    demanding = [
        claim if claim.id != CLAIM else type(claim)(claim.id, claim.sentence, claim.relation.quantity >= 9)
        for claim in known.claims
    ]
    summary, _, _ = ran(type(known)(**{**vars(known), "claims": tuple(demanding)}), [OTHER, "mariadb"], preset="least")

    assert summary.exit_code == 1


@pytest.mark.parametrize("conditions", [{"rtt": "40ms"}, {"settings": {"sync_binlog": "1"}}])
def test_a_comparison_is_judged_under_changed_conditions(conditions):
    """The claims about published conditions are not, and without this one the run would compare nothing."""
    known = experiments.load("semisync_wan", conditions.get("rtt", ""))
    asked = Against(server=OTHER, margin=0.1)
    found = experiments.chosen(known, "least", conditions.get("settings", {}), Only(cases=[CASE]), asked)
    claims = {claim.id: claim for claim in found.claims}

    assert found.conditions and found.not_compared(claims[CLAIM], "mariadb") is None
    assert any(found.not_compared(claim, "mariadb") for claim in claims.values())


def test_a_comparison_is_judged_beside_the_claims_that_are_named(ran):
    """--claim leaves out other claims of the experiment; both servers are measured, and compared."""
    known = experiments.load("semisync_wan")
    named = next(claim for claim in known.claims if set(claim.relation.cases) <= {CASE, "after-sync-direct"})
    asked = Against(server=OTHER, margin=0.1)
    found = experiments.chosen(known, "least", {}, Only(claims=[named.id]), asked)
    summary, _, _ = ran(found, [OTHER, "mariadb"], preset="least")

    assert {claim.id for claim in summary.claims if claim.engine == "mariadb"} >= {named.id, CLAIM}


def test_a_claim_of_its_own_measures_a_file_beside_its_cases():
    """Named by --claim, its cases are measured with and without the file."""
    known = experiments.load("semisync_wan")
    named = next(claim for claim in known.claims if CASE in claim.relation.cases)
    found = experiments.chosen(known, "least", {}, Only(claims=[named.id]), Against(cnf=FILE, margin=0.1))
    measured = {case.name for case in found.chosen(found.preset("least"))}

    assert {CASE, f"{CASE}@ours.cnf"} <= measured


def test_cases_are_compared_by_the_figures_that_they_have(ran):
    """When other clients see a row is no rate: such a case would leave the comparison unknown."""
    known = experiments.chosen(experiments.load("semisync_wan"), "quick", {}, Only(), Against(server=OTHER, margin=0.1))
    compared = {claim.id for claim in known.claims if claim.compares}

    assert CLAIM in compared and not [name for name in compared if "seen" in name]


@pytest.mark.parametrize("name", sorted({*experiments.names()} & {*golden.names()}))
def test_every_case_has_the_figures_by_which_it_is_compared(name, tmp_path):
    """In the kept record of each experiment; a figure that a case lacks would leave each comparison unknown.

    Noisy measurements have the same figures: the record of an experiment that counts may have only these.
    """
    known, (_, record) = experiments.load(name), journal.read(golden.unpack(name, tmp_path))
    compared = {case.name: {*known.compared_of(case)} for case in known.cases}
    lacks = [each.case for each in record.measurements if compared[each.case] - {*each.figures}]

    assert any(compared.values()) and lacks == []


def test_a_case_that_only_one_server_can_have_leaves_the_comparison_unknown(ran):
    """MariaDB 10.2 here has no semi-sync. Nothing says that MariaDB 11.8 is no slower with it."""
    without = "mariadb-10.2"
    known, asked = experiments.load("semisync_wan"), Against(server=without, margin=0.9)
    found = experiments.chosen(known, "least", {}, Only(cases=[CASE, "after-sync-direct"]), asked)
    alone = experiments.chosen(known, "least", {}, Only(cases=[CASE]), asked)

    assert ran(found, [without, "mariadb"], preset="least")[0].exit_code == 3
    assert ran(alone, [without, "mariadb"], preset="least")[0].exit_code == 0


def test_a_named_comparison_is_judged_alone(ran):
    """The other comparisons are left out like all claims that are not named."""
    known, asked = experiments.load("semisync_wan"), Against(server=OTHER, margin=0.1)
    found = experiments.chosen(known, "least", {}, Only(claims=[CLAIM]), asked)
    summary, _, _ = ran(found, [OTHER, "mariadb"], preset="least")

    assert {claim.id for claim in summary.claims} == {CLAIM} and summary.exit_code == 0


def test_a_case_is_named_and_its_comparison_with_a_file_as_well():
    """The case with the file is measured without being named."""
    known = experiments.load("semisync_wan")
    found = experiments.chosen(
        known, "least", {}, Only(cases=[CASE], claims=[WITH_FILE]), Against(cnf=FILE, margin=0.1)
    )

    assert {case.name for case in found.chosen(found.preset("least"))} == {CASE, f"{CASE}@ours.cnf"}


def test_cases_without_a_compared_figure_are_refused(refused):
    """Nothing starts: the run could only end unknown."""
    known, asked = experiments.load("semisync_wan"), Against(server=OTHER, margin=0.1)
    error = refused(experiments.chosen, known, "quick", {}, Only(cases=["after-sync-85ms-seen"]), asked)

    assert "no chosen case of semisync_wan has a compared figure" in error.found


def test_a_record_is_judged_again_against_the_same_server(ran, runs):
    """The record alone has the server that was compared with, and the margin."""
    summary, record, _ = ran(chosen(0.2), [OTHER, "mariadb"], preset="least")
    again = running.judge("latest")

    assert record.run.against == Against(server=OTHER, margin=0.2)
    assert [(claim.id, claim.engine, claim.verdict) for claim in again.claims] == [
        (claim.id, claim.engine, claim.verdict) for claim in summary.claims
    ]
    assert "at least 80%" in next(claim.sentence for claim in again.claims if claim.id == CLAIM)


# --- a my.cnf file ----------------------------------------------------------------------------------------------------

FILE = GivenFile("ours.cnf", "[mysqld]\ninnodb_io_capacity = 300\n")
WITH_FILE = f"against:ours.cnf:{CASE}"


def with_file(**only):
    """Return semisync_wan, measured against its own servers with a file."""
    known = experiments.load("semisync_wan")
    return experiments.chosen(known, "least", {}, Only(**only), Against(cnf=FILE, margin=0.1))


def proofs(record, case):
    return {proof.what for found in record.of("mariadb", case) for proof in found.proofs if proof.ok}


def test_a_case_is_measured_with_and_without_the_file_in_the_same_rounds(ran):
    """Two labs; the options of the file are proved over each load of one of them."""
    summary, record, world = ran(with_file(cases=[CASE]), preset="least")

    assert {(found.round, found.case) for found in record.measurements} >= {(1, CASE), (1, f"{CASE}@ours.cnf")}
    assert world.came_up == ["mariadb"] * 2 == world.taken_down
    assert [lab.about for lab in record.labs("mariadb")] == ["semisync", "semisync, with ours.cnf"]
    for node in ("source", "replica"):
        option = f"{node} has innodb_io_capacity=300 (ours.cnf line 2)"
        assert option in proofs(record, f"{CASE}@ours.cnf") and option not in proofs(record, CASE)
    claim = next(claim for claim in summary.claims if claim.id == WITH_FILE)
    assert claim.verdict is Verdict.HOLDS and claim.sentence.endswith(
        "with ours.cnf: at least 90% of the commits/s without it in the same rounds"
    )


def test_servers_of_a_case_that_sets_variables_keep_the_file(ran):
    """While the cases are tried before the first round, too."""
    only, asked = Only(cases=["async-1"]), Against(cnf=FILE, margin=0.1)
    known = experiments.chosen(experiments.load("semisync_threads"), "quick", {}, only, asked)
    _, record, _ = ran(known)

    assert "source has innodb_io_capacity=300 (ours.cnf line 2)" in proofs(record, "async-1@ours.cnf")


def test_a_claim_alone_measures_both_of_its_cases(ran):
    """Named by --claim."""
    _, record, _ = ran(with_file(claims=[WITH_FILE]), preset="least")

    assert {found.case for found in record.measurements} == {CASE, f"{CASE}@ours.cnf"}


def test_a_record_with_a_file_is_judged_again(ran, runs):
    """The record holds the file's text."""
    summary, record, _ = ran(with_file(cases=[CASE]), preset="least")
    again = running.judge("latest")

    assert record.run.against == Against(cnf=FILE, margin=0.1)
    assert [(claim.id, claim.verdict) for claim in again.claims] == [
        (claim.id, claim.verdict) for claim in summary.claims
    ]


def test_a_file_that_sets_what_the_experiment_sets_is_refused_before_the_first_round(ran, refused):
    """semisync_wan sets sync_binlog=0 itself."""
    known, file = experiments.load("semisync_wan"), GivenFile("durable.cnf", "[mysqld]\nsync_binlog = 1\n")
    asked, seen = Against(cnf=file, margin=0.1), []
    found = experiments.chosen(known, "least", {}, Only(cases=[CASE]), asked)
    error = refused(ran, found, preset="least", meanwhile=lambda _lab, load: seen.append(load))

    assert "not in force: source has sync_binlog=1 (durable.cnf line 2), found 0" in error.found and seen == []


def test_a_file_that_a_server_forgets_makes_it_unknown(ran):
    """The sabotage: the server runs without the file's option during the load."""

    def forget(lab, _load):
        server = lab.node("source").server()
        if server.settings("innodb_io_capacity") == {"innodb_io_capacity": "300"}:
            server.set_global(innodb_io_capacity=200)

    summary, _, _ = ran(with_file(cases=[CASE]), preset="least", meanwhile=forget)
    claim = next(claim for claim in summary.claims if claim.id == WITH_FILE)

    assert claim.verdict is Verdict.UNKNOWN
    assert "source has innodb_io_capacity=300 (ours.cnf line 2)" in claim.reason


# --- another revision of the Compose files ----------------------------------------------------------------------------


@pytest.fixture
def own_project(tmp_path, monkeypatch):
    """Make a project with a topology of its own, whose last commit changed its toxic."""
    folder = tmp_path / "lab" / "topologies"
    folder.mkdir(parents=True)
    text = catalogue.compose_file("async").read_text()
    (folder / "async.yaml").write_text(text.replace("wan-85ms", "wan-200ms"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e@example.com"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    (folder / "async.yaml").write_text(text)
    monkeypatch.setattr(revisions.folders, "KEPT", tmp_path / "kept")
    with own.of_project(tmp_path):
        yield folder


def test_a_topology_is_read_as_it_was_at_a_revision(own_project):
    """The working copy has another toxic than the commit."""
    commit = catalogue.commit("HEAD", "async")
    then, now = catalogue.topology(f"async@{commit}"), catalogue.topology("async")

    assert set(then.toxics.values()) == {"wan-200ms"} and set(now.toxics.values()) == {"wan-85ms"}
    assert then.nodes == now.nodes and len(commit) == 40


def test_a_copy_of_a_revision_that_was_interrupted_is_no_copy(own_project, monkeypatch):
    """Sabotage: the disk is full after the first files; the next command does not take them for all."""
    whole = revisions.ZipFile.extractall
    monkeypatch.setattr(revisions.ZipFile, "extractall", partly)
    with pytest.raises(LabError, match="no space"):
        catalogue.commit("HEAD", "async")
    monkeypatch.setattr(revisions.ZipFile, "extractall", whole)

    assert not list(revisions.folders.KEPT.rglob("async.yaml"))
    assert catalogue.topology(f"async@{catalogue.commit('HEAD', 'async')}").toxics


def command_ends():
    lock.keep_shared.cache_clear()
    lock._kept.close()


def test_a_copy_that_neither_a_lab_nor_a_command_uses_is_removed(own_project):
    """A command that is about to start a lab holds its lock; a lab that is up reads its Compose file again."""
    file = catalogue.compose_file(f"async@{catalogue.commit('HEAD', 'async')}")
    [copy] = revisions.folders.KEPT.joinpath("revisions").iterdir()

    assert revisions.unused([]) == []
    command_ends()
    assert revisions.unused([f"/a,checkout/compose/async.yaml,{file}"]) == []
    assert revisions.unused([f"{copy}-other/compose/async.yaml"]) == [copy]
    with lock.held(revisions._lock_of(copy)):
        assert revisions.remove([copy]) == [] and copy.exists(), "it is in use by now, and not reported as removed"
    assert revisions.remove([copy]) == [f"the copy {copy.name[:12]} of a revision"] and not copy.exists()


def test_a_copy_in_a_path_with_a_comma_is_seen_in_use(own_project, tmp_path, monkeypatch):
    """Compose puts commas between the files of its label."""
    monkeypatch.setattr(revisions.folders, "KEPT", tmp_path / "kept, and more")
    file = catalogue.compose_file(f"async@{catalogue.commit('HEAD', 'async')}")
    command_ends()

    assert revisions.unused([f"{file},/x.servers.yaml"]) == []
    assert len(revisions.unused([])) == 1


def partly(archive, folder):
    archive.extract(archive.namelist()[-1], folder)
    raise OSError("no space left")


def test_a_revision_that_does_not_exist_or_has_no_such_topology_is_refused(own_project, refused):
    """Before anything starts, with the next command."""
    assert "'nonsense' is not a revision" in refused(catalogue.commit, "nonsense", "async").found
    (own_project / "later.yaml").write_text((own_project / "async.yaml").read_text())
    error = refused(catalogue.commit, "HEAD", "later")
    assert "lab/topologies/later.yaml does not exist at" in error.found and "git log" in error.next_step


def test_each_case_is_measured_on_both_revisions_and_judged_again(ran, runs):
    """Two labs in the same rounds; the record names the commit."""
    asked = Against(commit=catalogue.commit("HEAD", "semisync"), margin=0.1)
    known = experiments.load("semisync_wan")
    summary, record, world = ran(experiments.chosen(known, "least", {}, Only(cases=[CASE]), asked), preset="least")
    again = running.judge("latest")

    assert {(found.round, found.case) for found in record.measurements} >= {
        (1, CASE),
        (1, f"{CASE}@{asked.commit[:12]}"),
    }
    assert world.came_up == ["mariadb"] * 2
    # The next commit is compared with this one's baseline.
    assert [*running.digest_of("latest").engines["mariadb"].cases] == [CASE, f"{CASE}@git"]
    assert (
        [(claim.id, claim.verdict) for claim in again.claims]
        == [(f"against:git:{CASE}", Verdict.HOLDS)]
        == [(claim.id, claim.verdict) for claim in summary.claims]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["semisync_wan", "--against", "mariadb"], "compares mariadb with itself"),
        (["semisync_wan", "--against", "mariadb-10.11", "--margin", "0%"], "--margin"),
        (["semisync_wan", "--against", "mariadb-10.11", "--margin", "much"], "not a percentage"),
        (["semisync_wan", "--margin", "5%"], "--margin 5% without --against"),
        (["temporary_tables", "--against", "mariadb"], "compares engines already"),
        (["semisync_wan", "--against", "/no/such.cnf"], "/no/such.cnf cannot be read"),
        (["semisync_wan", "--against", "git:nonsense"], "'nonsense' is not a revision"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_starts(arguments, message):
    """One message, and no Docker call: a unit test would fail at it."""
    ended = CliRunner().invoke(cli.cli, ["run", *arguments], prog_name="lab")

    assert isinstance(ended.exception, LabError)
    assert message in str(ended.exception)
