"""Does a user's script for sysbench come with its modules and its own options, and is an option of the lab refused?"""

import pytest
from replication_lab.experiments.question.experiment import load_of
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue, given_texts

from tests.fakes.lab import FakeLab
from tests.fakes.world import FakeWorld

SCRIPTS = catalogue.ROOT / "tests" / "files" / "scripts"


def asked(workload, **options) -> Question:
    return Question(topologies=["semisync"], vary={"clients": ["1", "4"]}, workload=workload, script_options=options)


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("own.lua", {"common.lua", "statements.lua", "lib/rows.lua"}),
        ("commands.lua", {"common.lua", "statements.lua", "lib/rows.lua"}),
        ("fails.lua", {"common.lua", "statements.lua"}),
        ("common.lua", {"statements.lua"}),
    ],
)
def test_a_script_comes_with_the_modules_beside_it(name, modules):
    """Also those of its modules; sysbench's own are left to it."""
    assert {module.name for module in given_texts.read(SCRIPTS / name).beside} == modules


def test_modules_and_options_reach_the_load():
    """Each module under its own path."""
    load, lab = load_of(asked(given_texts.read(SCRIPTS / "own.lua"), scale="10", word="x")), None
    lab = FakeLab(FakeWorld(), catalogue.topology("semisync"), "mariadb")
    load.prepare(lab)

    assert load.options == ("--scale=10", "--word=x")
    assert {"/tmp/load/common.lua", "/tmp/load/lib/rows.lua", "/tmp/load.lua"} <= lab.files.keys()


@pytest.mark.parametrize(
    ("workload", "name", "said"),
    [
        ("oltp_read_write", "scale", "--script-option with the load oltp_read_write, which is not your own script"),
        (GivenFile("a.sql", "SELECT 1;"), "scale", "--script-option with the load a.sql"),
        *(
            (GivenFile("a.lua", "function event() end"), name, f"--script-option {name} is none of the script's own")
            for name in ("threads", "mysql-password", "mysql_host", "lab-rate", "rand-seed", "--scale", "db-driver")
        ),
    ],
)
def test_options_that_are_not_the_scripts_are_refused(workload, name, said, refused):
    """The lab gives sysbench these itself."""
    assert said in refused(lambda: asked(workload, **{name: "1"})).found
