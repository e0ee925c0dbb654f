"""Do the scripts for pipelines call the lab as asked, report what it found, and end with the code that is promised?

The lab is a stand-in here, which writes down how it was called; tests/lab/test_pipelines.py has the real one.
"""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from replication_lab.world import folders

from tests.workflow import Action, Ended, Values, gitlab_job

pytestmark = pytest.mark.whole
ROOT = folders.CHECKOUT
ACTION = Action(ROOT / ".github" / "actions" / "lab" / "action.yml")
GITLAB, PIPELINE = ROOT / "docs" / "ci" / "gitlab.yml", ROOT / "docs" / "ci" / "pipeline.sh"
# Writes each call's words, one call a line; measures and compares with the codes that a test sets.
STAND_IN = r"""#!/bin/bash
{ printf '<%s>' "$@"; echo; } >>calls
case $1-$2 in
  images-key) echo key-1 ;;
  images-load) exit "${LOAD_CODE:-0}" ;;
  report-latest) [ -e runs/latest ] && echo "$PWD/runs/latest/report.html" ;;
  run-* | drill-* | ask-*)
    if [ "${CODE:-0}" != 2 ] && [ -z "${RECORDS_NOTHING:-}" ]; then
      mkdir -p runs/latest; touch runs/latest/junit.xml
    fi
    exit "${CODE:-0}" ;;
  report-*) [ "$4" = github ] && echo "::error title=REFUTED::a claim" || echo "| verdict | claim |" ;;
  compare-*) echo "## Compared"; exit "${COMPARED_CODE:-0}" ;;
esac
"""


@pytest.fixture
def workspace(tmp_path):
    """Return a folder with a stand-in for the lab."""
    (tmp_path / "lab").write_text(STAND_IN)
    (tmp_path / "lab").chmod(0o755)
    return tmp_path


@pytest.fixture
def act(workspace):
    """Run the action with these inputs and the stand-in."""

    def run(restored=False, code=0, compared=0, last=False, **inputs) -> Ended:
        inputs = {"lab": str(workspace / "lab")} | inputs
        return ACTION.run(workspace, inputs, restored, last, CODE=str(code), COMPARED_CODE=str(compared))

    return run


def calls(workspace: Path) -> list[str]:
    return (workspace / "calls").read_text().splitlines()


def test_a_drill_is_run_with_its_options_and_reported(act, workspace):
    """Words in quotes stay together, and nothing in them is run; the table is in the job's summary."""
    ended = act(drill="async", args="""--drill cut-link --duration 2 --x '$(touch hacked) a b'""", engine="mysql-8.0")

    assert ended.code == 0, ended.printed
    measured = "<drill><async><--engine><mysql-8.0><--drill><cut-link><--duration><2><--x><$(touch hacked) a b>"
    assert measured in calls(workspace) and not (workspace / "hacked").exists()
    assert ended.summary == "| verdict | claim |\n"
    assert "::error title=REFUTED::a claim" in ended.printed
    upload = ended.used["actions/upload-artifact@v4"]
    assert upload == {"name": "lab-drill-async-mysql-8.0", "path": f"{workspace}/runs/latest"}


@pytest.mark.parametrize(
    ("inputs", "key", "measured"),
    [
        (
            {"run": "semisync_wan", "preset": "brief"},
            "<images><key><--experiment><semisync_wan>",
            "<run><semisync_wan><--preset><brief>",
        ),
        (
            {"ask": "async,semisync", "args": "--rtt 40ms --claim 'p99 <= 50'"},
            "<images><key><--topology><async><--topology><semisync>",
            "<ask><async,semisync><--rtt><40ms><--claim><p99 <= 50>",
        ),
        (
            {"run": "temporary_tables", "engine": "mariadb,mysql-8.0"},
            "<images><key><mariadb><mysql-8.0><--experiment><temporary_tables>",
            "<run><temporary_tables><--engine><mariadb,mysql-8.0>",
        ),
    ],
)
def test_each_kind_of_run_has_its_command_and_its_images(act, workspace, inputs, key, measured):
    """An experiment, a question, several engines."""
    assert act(**inputs).code == 0
    assert calls(workspace)[0] == key and measured in calls(workspace)


@pytest.mark.parametrize(
    ("restored", "inputs", "call", "used"),
    [
        (False, {}, "<images><save><{}/temp/lab-images><--topology><single>", {"restore", "save"}),
        (True, {}, "<images><load><{}/temp/lab-images>", {"restore"}),
        (True, {"images-sha256": "ab12"}, "<images><load><{}/temp/lab-images><--sha256><ab12>", {"restore"}),
        (False, {"cache": "false"}, "<images><build><--topology><single>", set()),
        (False, {"registry": "registry.example/lab"}, "<images><build><--topology><single>", set()),
    ],
    ids=["first time", "restored", "with a digest", "no cache", "own registry"],
)
def test_images_come_from_the_cache_or_are_built_for_it(act, workspace, restored, inputs, call, used):
    """The cache has a key that changes with the images; with a registry of one's own nothing is cached."""
    ended = act(drill="single", restored=restored, **inputs)

    assert call.format(workspace) in calls(workspace)
    caches = {name.split("/")[2].split("@")[0]: each for name, each in ended.used.items() if "cache" in name}
    assert set(caches) == used and {each["key"] for each in caches.values()} <= {"key-1"}


@pytest.mark.parametrize(
    ("code", "compared", "unknown", "ends"),
    [
        (0, 0, "fail", 0),
        (1, 0, "fail", 1),
        (3, 0, "fail", 3),
        (3, 0, "pass", 0),
        (1, 3, "pass", 1),
        (2, 0, "pass", 2),
        (130, 0, "fail", 2),
        (0, 1, "fail", 1),
        (0, 3, "fail", 3),
        (0, 3, "pass", 0),
        (3, 1, "pass", 1),
        (0, 2, "fail", 2),
    ],
)
def test_the_job_ends_with_the_worst_code(act, code, compared, unknown, ends):
    """2 is worse than 1, 1 than 3; only UNKNOWN may pass, and only where that is asked for."""
    ended = act(drill="single", code=code, compared=compared, baseline="b.json", unknown=unknown, last=True)

    assert ended.code == ends
    assert ("lets it pass" in ended.printed) == (unknown == "pass" and ends == 0)


def test_a_comparison_with_a_baseline_is_in_the_summary(act, workspace):
    """With the margin that was given, and an error if something is worse."""
    ended = act(run="semisync_wan", baseline="base.json", margin="5%", compared=1)

    folder = f"{workspace}/runs/latest"
    assert f"<compare><base.json><{folder}><--margin><5%><--format><markdown>" in calls(workspace)
    assert ended.summary == "## Compared\n| verdict | claim |\n"
    assert "::error title=baseline::worse than base.json by more than 5%" in ended.printed
    shutil.rmtree(workspace / "runs")
    failed = act(run="semisync_wan", baseline="gone.json", compared=2)
    assert failed.code == 2 and "::error title=baseline::the comparison with gone.json failed" in failed.printed


def test_a_refused_command_does_not_report_an_older_run(act, workspace):
    """A machine that keeps its folders has a latest run already: it is not this one's."""
    (workspace / "runs" / "latest").mkdir(parents=True)
    ended = act(drill="single", code=2)

    assert (ended.code, ended.outputs["measure"]["folder"]) == (2, "")
    assert ended.summary.startswith("**No run was recorded**: exit code 2")
    assert not any("<--format>" in call for call in calls(workspace))
    assert "actions/upload-artifact@v4" not in ended.used


def test_a_command_that_records_nothing_is_not_green(act, pipeline, workspace):
    """`lab drill single --help` ends with 0 and judges nothing."""
    (workspace / "runs" / "latest").mkdir(parents=True)

    assert act(drill="single", args="--help").code == 2
    assert pipeline("drill", "single", "--help").returncode == 2


def test_a_command_that_records_nothing_is_not_let_pass_as_unknown(act, pipeline, workspace, monkeypatch):
    """Although it ends with 3, and UNKNOWN may pass."""
    monkeypatch.setenv("RECORDS_NOTHING", "yes")

    assert act(drill="single", code=3, unknown="pass").code == 2
    assert pipeline("drill", "single", CODE="3", RECORDS_NOTHING="yes", LAB_UNKNOWN="pass").returncode == 2


def test_options_with_an_open_quote_are_refused(act, workspace):
    """The command without them would be another one, and green."""
    ended = act(drill="single", args="--drill 'cut-link")

    assert ended.code == 2 and "args are '--drill 'cut-link'" in ended.printed
    assert not any(call.startswith("<drill>") for call in calls(workspace))


def test_cached_images_that_are_refused_are_built(act, pipeline, workspace, monkeypatch):
    """The digest that maintainers have set is not theirs, or an archive is broken: the run goes on without them."""
    monkeypatch.setenv("LOAD_CODE", "2")
    ended = act(drill="single", restored=True, **{"images-sha256": "ab12"})

    assert ended.code == 0 and "::warning title=replication lab::the cached images are not used" in ended.printed
    assert "<images><build><--topology><single>" in calls(workspace)
    (workspace / "kept").mkdir()
    shutil.rmtree(workspace / "runs")
    ended = pipeline("drill", "single", LAB_CACHE="kept", LAB_CACHE_SHA256="ab12", LOAD_CODE="2")
    assert ended.returncode == 0
    assert "<images><load><kept><--sha256><ab12>" in calls(workspace)


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({}, "given: nothing; expected one of run, drill and ask"),
        ({"run": "a", "drill": "b"}, "given: run drill; expected one of"),
        ({"drill": "b", "preset": "full"}, "preset with drill"),
        ({"drill": "b", "unknown": "maybe"}, "unknown is 'maybe'; expected fail or pass"),
        ({"drill": "b", "lab": "/nothing/lab"}, "there is no command /nothing/lab"),
    ],
)
def test_bad_inputs_are_refused_before_anything_starts(act, workspace, inputs, told):
    """Exit code 2, and an error that says what was found and expected."""
    ended = act(**inputs)

    assert ended.code == 2 and told in ended.printed and "::error" in ended.printed
    assert not (workspace / "calls").exists()
    assert ended.ran == ["Check the inputs"]


def test_the_lab_of_the_action_s_own_version_is_the_default():
    """The command beside the action, in the checkout that GitHub makes of it."""
    assert (ACTION.folder / "../../../lab").resolve() == ROOT / "lab"
    prepare = next(step for step in ACTION.steps if step.get("id") == "prepare")
    assert "LAB=${LAB:-$ACTION/../../../lab}" in prepare["run"]


def test_every_output_and_every_input_is_used():
    """An input that no step reads would do nothing; an output of no step would be empty."""
    texts = str(ACTION.steps)
    values = Values({}, replace(Ended(), outputs={"measure": {"code": "0", "folder": "f"}}))

    assert [name for name in ACTION.inputs if f"inputs.{name}" not in texts] == []
    assert [values.filled(each["value"]) for each in ACTION.declared.values()] == ["0", "f"]


def test_an_expression_that_is_not_known_fails():
    """The tests above cannot pass over a step that they do not understand."""
    with pytest.raises(KeyError):
        Values({}, Ended()).filled("${{ secrets.TOKEN }}")
    with pytest.raises(AssertionError):
        Values({}, Ended()).allow("contains(inputs.run, 'x')")


def test_the_project_s_own_workflow_gives_inputs_that_exist():
    """A matrix over engines, each an engine that there is."""
    from replication_lab.world import catalogue

    job = msgspec.yaml.decode((ROOT / ".github" / "workflows" / "lab.yml").read_bytes())["jobs"]["drill"]
    step = next(step for step in job["steps"] if step["uses"] == "./.github/actions/lab")

    assert set(step["with"]) <= set(ACTION.inputs)
    assert set(job["strategy"]["matrix"]["engine"]) <= set(catalogue.engines())
    assert step["with"]["drill"] in catalogue.topologies()


# --- a shell, and GitLab ----------------------------------------------------------------------------------------------


@pytest.fixture
def pipeline(workspace):
    """Run docs/ci/pipeline.sh with the stand-in."""

    def run(*words, **environment):
        own = {"LAB": str(workspace / "lab"), "PATH": "/usr/bin:/bin", **environment}
        return subprocess.run([PIPELINE, *words], cwd=workspace, env=own, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    ("code", "compared", "unknown", "ends"),
    [("0", "0", "", 0), ("1", "0", "pass", 1), ("3", "0", "", 3), ("3", "0", "pass", 0), ("0", "1", "", 1)],
)
def test_the_shell_s_recipe_leaves_a_report_and_ends_with_the_code(pipeline, workspace, code, compared, unknown, ends):
    """The run's files and the table are in lab-report/, whatever the verdict."""
    ended = pipeline(
        *("drill", "async", "--drill", "cut-link"),
        **{"CODE": code, "COMPARED_CODE": compared, "LAB_UNKNOWN": unknown, "LAB_BASELINE": "b.json"},
    )

    assert ended.returncode == ends, ended.stderr
    assert "<drill><async><--drill><cut-link>" in calls(workspace)
    assert {path.name for path in (workspace / "lab-report").iterdir()} == {"junit.xml", "verdicts.md"}
    assert (workspace / "lab-report" / "verdicts.md").read_text() == "| verdict | claim |\n## Compared\n"


def test_the_shell_s_recipe_keeps_images(pipeline, workspace):
    """Those of the engines and topologies; what the folder has is loaded first."""
    for _ in range(2):
        assert (
            pipeline("run", "x", LAB_CACHE="kept", LAB_ENGINES="mariadb mysql-8.0", LAB_TOPOLOGIES="galera").returncode
            == 0
        )
        (workspace / "kept").mkdir(exist_ok=True)
        shutil.rmtree(workspace / "runs")
    found = [call for call in calls(workspace) if call.startswith("<images>")]

    saved = "<images><save><kept><mariadb><mysql-8.0><--topology><galera>"
    assert found == [saved, "<images><load><kept>", saved]


def test_the_shell_s_recipe_does_not_report_an_older_run(pipeline, workspace):
    """As for the action."""
    (workspace / "runs" / "latest").mkdir(parents=True)

    assert pipeline("drill", "x", CODE="2").returncode == 2
    assert "No run was recorded" in (workspace / "lab-report" / "verdicts.md").read_text()
    assert pipeline().returncode == 2


def test_gitlab_s_job_clones_the_lab_and_runs_the_command(workspace):
    """Its scripts, one after another in one shell; quotes in the command are kept."""
    repository = workspace / "repository"
    (repository / "docs" / "ci").mkdir(parents=True)
    shutil.copy(PIPELINE, repository / "docs" / "ci")
    shutil.copy(workspace / "lab", repository)
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=repository, check=True)
    ended = gitlab_job(
        GITLAB,
        ".lab",
        workspace,
        LAB_REPOSITORY=repository.as_uri(),
        LAB_COMMAND="ask async --claim 'p99 <= 50'",
        CODE="3",
    )

    assert ended.returncode == 3, ended.stderr
    assert calls(workspace)[0] == "<images><save><.lab-images><mariadb>"
    assert "<ask><async><--claim><p99 <= 50>" in calls(workspace)
    kept = msgspec.yaml.decode(GITLAB.read_bytes())[".lab"]
    assert (workspace / kept["artifacts"]["reports"]["junit"]).is_file()


def test_gitlab_s_job_without_a_command_is_refused(workspace):
    """Before anything is cloned."""
    ended = gitlab_job(GITLAB, ".lab", workspace)

    assert ended.returncode == 2 and "LAB_COMMAND is empty" in ended.stderr
    assert not (workspace / ".lab").exists()
