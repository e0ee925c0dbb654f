"""Does the action for pipelines work with the lab itself, in a clean clone?"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from replication_lab.world import folders

from tests.records import golden
from tests.workflow import Action

# Measures nothing: it puts a kept record where a run would be, and reports it.
RECORDED = """#!/bin/sh
case $1 in
  drill)
    cp -r {record} {clone}/runs/ && ln -sfn {name} {clone}/runs/latest
    exec {clone}/lab report latest ;;
  images) [ "$2" = key ] || exit 0 ;;
esac
exec {clone}/lab "$@"
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Return a clone of the project as it is committed; its environment is the one of these tests."""
    folder = tmp_path_factory.mktemp("clone") / "lab"
    subprocess.run(["git", "clone", "-q", folders.CHECKOUT, folder], check=True)
    (folder / "runs").mkdir()
    (folder / ".venv").mkdir()
    for path in Path(sys.prefix).iterdir():
        (folder / ".venv" / path.name).symlink_to(path)
    # The launcher makes an environment anew if this list is not that of the clone; here the one of the tests will do.
    (folder / ".venv" / "installed.txt").unlink(missing_ok=True)
    shutil.copy(folder / "harness" / "requirements.txt", folder / ".venv" / "installed.txt")
    return folder


@pytest.fixture
def act(clone, tmp_path):
    """Run the clone's action in a folder of the user's."""

    def run(**inputs):
        action = Action(clone / ".github" / "actions" / "lab" / "action.yml")
        # The environment of the tests knows the package by its place in another checkout.
        path = os.pathsep.join([str(clone / "harness"), os.environ.get("PYTHONPATH", "")])
        return action.run(tmp_path, inputs, PYTHONPATH=path)

    return run


@pytest.mark.long
def test_a_recorded_run_is_reported_as_it_was(act, clone, tmp_path):
    """The table with what each drill lost is in the job's summary, and the run's folder is uploaded."""
    name = "drill-semisync-3"
    stand_in = tmp_path / "recorded"
    stand_in.write_text(RECORDED.format(record=golden.unpack(name, tmp_path), clone=clone, name=name))
    stand_in.chmod(0o755)
    ended = act(drill="semisync-3", lab=str(stand_in))

    assert ended.code == 0, ended.printed
    assert "**AS_EXPECTED**" in ended.summary and "| as expected | cut-one-link | 0 | " in ended.summary
    folder = Path(ended.outputs["measure"]["folder"])
    assert ended.used["actions/upload-artifact@v4"]["path"] == str(folder)
    assert {"report.html", "junit.xml", "summary.json"} <= {path.name for path in folder.iterdir()}


@pytest.mark.long
def test_a_drill_on_real_servers_ends_with_its_verdicts(act, built):
    """The action as in a workflow, with images from archives, and the fault proved on a real server."""
    ended = act(drill="single", args="--drill kill --duration 3")

    assert ended.code == 0, ended.printed
    assert {"mariadb", "load"} <= {path.name.rsplit("-", 2)[0] for path in _archives(ended)}
    assert "| as expected | kill | 0 |" in ended.summary


@pytest.mark.long
def test_a_name_that_does_not_exist_is_the_action_s_error(act):
    """The lab's own message, exit code 2, and no report of another run."""
    ended = act(drill="galeera")

    assert ended.code == 2 and "did you mean galera?" in ended.printed
    assert ended.used.keys() == set()


def _archives(ended):
    return Path(ended.used["actions/cache/save@v4"]["path"]).glob("*.tar")
