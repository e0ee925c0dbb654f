"""Is a name that nothing can have refused before anything starts, with the limit?"""

import pytest
from replication_lab.model.core.errors import LONGEST_NAME
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.world import catalogue
from replication_lab.world.docker import engine, images, project

LONG = "n" * 300
OF_A_FILE = ("error: nnnnnnnnnnnnnnnnnnnn… has 30", "expected: the name of a file, of at most 255 bytes")
OF_A_LAB = ("of a lab has 300 bytes", "expected: at most 63 bytes")
UNKNOWN = ("unknown ",)
COMMANDS = {
    f"up {LONG}": OF_A_FILE,
    f"up async --lab {LONG}": OF_A_LAB,
    f"live semisync --lab {LONG} --no-open": OF_A_LAB,
    f"ask {LONG} --vary clients=1,2": OF_A_FILE,
    f"ask single --vary clients=1,2 --save {LONG}": OF_A_FILE,
    f"ask single --vary clients=1,2 --workload {LONG}.sql": ("cannot be read: File name too long",),
    f"drill {LONG}": OF_A_FILE,
    f"drill async --drill {LONG}": UNKNOWN,
    f"run {LONG}": UNKNOWN,
    f"run semisync_wan --engine {LONG}": UNKNOWN,
    f"up semisync --toxic source-replica={LONG}": OF_A_FILE,
    f"compare {LONG} {LONG}": OF_A_FILE,
    f"report {LONG}": ("no record in ",),
    f"attach --file {LONG} --link a:b": OF_A_FILE,
    f"images load {LONG}": OF_A_FILE,
    f"list {LONG}": UNKNOWN,
}


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch, ran):
    """Make a machine with an engine, without labs, on which none can be started; one run has a record."""
    from tests.unit.synthetic_runs import tiny

    ran(tiny())
    monkeypatch.setattr(engine, "ensure", lambda: None)
    monkeypatch.setattr(project, "all_labs", dict)
    for module, name in ((project, "start"), (images, "ensure")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("something was started"))


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words.replace(LONG, "NAME"))
def test_a_name_of_300_characters_is_one_error(lab, tmp_path, monkeypatch, words):
    """Three lines and status 2; no folder of a run is made."""
    monkeypatch.chdir(tmp_path)
    before = sorted(catalogue.RUNS.iterdir())
    status, _, said = lab(*words.split())

    assert status == 2 and said.count("error:") == 1 and "Traceback" not in said, said
    assert [part for part in COMMANDS[words] if part not in said] == [], said
    assert sorted(catalogue.RUNS.iterdir()) == before and list(tmp_path.glob("n*")) == []


@pytest.mark.parametrize("name", ["n" * LONGEST_NAME, "n" * (LONGEST_NAME + 1)])
def test_the_limit_is_that_of_a_host_name(refused, name):
    """A lab's containers find each other by names that contain its own."""
    make = lambda: LabRequest(catalogue.topology("async"), "mariadb", name)  # noqa: E731
    if len(name) <= LONGEST_NAME:
        assert make().name == name
    else:
        assert "has 64 bytes" in refused(make).found


def test_a_drill_whose_ledger_no_file_could_be_is_refused(refused, tmp_path):
    """The file itself may have that name; the ledger's is longer."""
    from replication_lab.runner import drill_set

    file = tmp_path / f"{'d' * 240}.yaml"
    file.write_text((catalogue.drill_file("single", "kill")).read_text() + "\ntopology: single\n")

    assert "of a drill has 240 bytes" in refused(drill_set.read, file).found
