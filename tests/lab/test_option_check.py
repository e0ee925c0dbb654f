"""Do the servers' own programs check a my.cnf as the servers read it, and does a bad one end before a lab starts?"""

import json
import re

import msgspec
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import groups_of, options_of
from replication_lab.world import catalogue, given_texts
from replication_lab.world.docker import images, option_check, servers

from tests.lab.conftest import things_of

FILES = catalogue.ROOT / "tests" / "files" / "cnf"
OTHERS = ("mysql-8.0", "mysql-5.5", "mysql-5.6", "mysql-5.7", "mariadb-10.1", "mariadb-10.2", "mariadb-10.11")
ENGINES = ["mariadb", *(pytest.param(each, marks=pytest.mark.long) for each in OTHERS)]
FILE_OF_2010 = given_texts.read(FILES / "old.cnf")
READ = re.compile(r"The following groups are read: (.*)")


@pytest.fixture(params=ENGINES)
def image(docker, request):
    """Return the image of an engine, made ready."""
    images.ensure([request.param])
    return servers.image_of(request.param)


def test_the_lab_knows_the_groups_that_a_server_reads(image):
    """The program lists them itself; a group of its own version is among them."""
    _, said = images.said_by(image, f"{option_check.PROGRAM}; $server --no-defaults $base --verbose --help 2>/dev/null")
    read = set(READ.search(said)[1].split())
    known = set(groups_of(option_check.program(image).version))

    assert read - {"server"} <= known
    assert {group for group in known if re.search(r"\d\.\d", group) and not group.startswith("mariadbd")} <= read


def test_the_lab_reads_odd_files_as_the_server_does(image):
    """Compared with what its program prints: the arguments that it takes from the file."""
    version = option_check.program(image).version
    texts = msgspec.yaml.decode((FILES / "odd.yaml").read_bytes())
    given = {f"ODD_{number}": text for number, text in enumerate(texts.values())}
    asked = "".join(
        f'printf %s "${name}" >/tmp/odd.cnf; echo "@@"; $server --defaults-file=/tmp/odd.cnf --print-defaults;'
        for name in given
    )
    _, said = images.said_by(image, f"{option_check.PROGRAM}; {asked}", environment=given)
    found = {name: _arguments(part) for name, part in zip(texts, said.split("@@")[1:], strict=True)}

    assert found == {name: _read(text, version) for name, text in texts.items()}


def _arguments(said):
    """Return what a server takes from a file by the names of its variables; the last of several counts."""
    parts = re.split(r"\s+--", said.partition("following arguments:")[2])
    pairs = (part.strip().partition("=") for part in parts if part.strip())
    return {name.replace("-", "_").lower(): value for name, _, value in pairs}


def _read(text, version):
    return {option.name: option.value for option in options_of(GivenFile("odd.cnf", text), version)}


@pytest.mark.parametrize("name", ["both.cnf", "debian/my.cnf", "relative/my.cnf", "repeated.cnf", "buffer-pool.cnf"])
def test_a_program_takes_what_its_server_takes(image, name):
    """Whatever the way in which it is written."""
    assert option_check.complaints(image, given_texts.read(FILES / name)) == {}


def test_a_program_names_every_option_that_its_server_does_not_take(image):
    """Each by its line, in one answer."""
    found = option_check.complaints(image, given_texts.read(FILES / "misspelt.cnf"))

    # MySQL 5.7 says nothing of a value that it changes: there the proof after the start names it.
    silent = {"6"} if option_check.program(image).version.numbers[:2] == (5, 7) else set()
    assert {option.place.rpartition(" ")[2] for option in found} == {"3", "4", "5", "6", "7", "8"} - silent


def test_every_option_that_was_removed_since_is_named_at_once(image):
    """Each by its line, whether the server would end at it or only ignore it; what it still takes is no complaint."""
    version = option_check.program(image).version
    found = {int(option.place.rpartition(" ")[2]) for option in option_check.complaints(image, FILE_OF_2010)}

    assert {9, 12} <= found and not found & {6, 13}
    since = {("mysql", (5, 7)): {10, 11}, ("mysql", (8, 0)): {3, 4, 5, 7, 8}, ("mariadb", (10, 11)): {5, 7, 10, 11}}
    for (family, numbers), lines in since.items():
        assert version.family != family or (lines <= found) is (version.numbers >= numbers), (version, found)


def test_an_option_that_is_no_variable_is_named_by_its_line(image):
    """Each server's program takes these, and no answer of the server would show them."""
    file = GivenFile("a.cnf", "[mysqld]\nsymbolic-links = 0\nskip-character-set-client-handshake\nback_log = 70\n")
    found = {option.place: why for option, why in option_check.complaints(image, file).items()}

    assert [*found] == ["a.cnf line 2", "a.cnf line 3"]
    assert all("not a variable" in why for why in found.values())


def test_the_beginning_of_a_name_is_told_with_the_whole_name(image):
    """As older files have it: some servers take it, and others do not know it."""
    (why,) = option_check.complaints(image, GivenFile("a.cnf", "[mysqld]\nkey_buffer = 16M\n")).values()
    _, said = images.said_by(
        image,
        f"{option_check.PROGRAM}; $server --no-defaults $base --key_buffer=16M --verbose --help 2>&1",
    )
    taken = re.search(r"^key-buffer-size +16777216", said, re.MULTILINE)

    assert "key_buffer_size" in why and ("it is the beginning of" in why) is bool(taken), said[-500:]


def test_a_quoted_value_reaches_the_program_as_it_is(image):
    """With quotes, a backslash and a number sign in it."""
    file = GivenFile("a.cnf", '[mysqld]\ninit_connect = \'SET @a = "b # c", @d = "e\\\\f"\' # a comment\n')

    assert option_check.complaints(image, file) == {}


def test_a_bad_file_ends_before_a_lab_starts(command, name):
    """The sabotage: no container of the lab is left, because none was made."""
    refused = command("up", "async", "--lab", name, "--cnf", str(FILES / "misspelt.cnf"))

    assert refused.returncode == 2
    assert all(f"misspelt.cnf line {number}: " in refused.stderr for number in range(3, 9)), refused.stderr
    assert "starting" not in refused.stderr
    assert things_of(name) == []


@pytest.mark.long
def test_a_server_that_cannot_get_its_memory_names_the_option(command, name):
    """The program's check cannot know it; the error of the start has the cause and the line of the file."""
    refused = command("up", "async", "--lab", name, "--cnf", str(FILES / "buffer-pool.cnf"))

    assert refused.returncode == 2
    assert "this is about innodb_buffer_pool_size = 48G (buffer-pool.cnf line 4)" in refused.stderr
    assert "Generic error" not in refused.stderr
    assert things_of(name) == []


@pytest.mark.long
def test_a_cluster_reads_the_files_of_a_distribution(command, name):
    """A folder beside the file, of which one option is repeated."""
    started = command("up", "galera-2", "--lab", name, "--cnf", str(FILES / "debian" / "my.cnf"))

    assert started.returncode == 0, started.stderr
    assert "node2 has back_log=75 (mysql.conf.d/20-more.cnf line 2, not 70 of" in started.stderr
    command("down", "--lab", name)


@pytest.mark.long
def test_each_engine_of_a_question_gets_its_part_of_one_file(command):
    """The values of its own groups are proved over each load."""
    few = ("--duration", "1", "--runs", "3", "--margin", "100%", "--noise", "accept", "--json")
    given = ("--vary", "engine=mariadb,mysql-8.0", "--cnf", str(FILES / "both.cnf"))
    answer = command("ask", "semisync", *given, *few)
    assert answer.stdout, answer.stderr
    assert json.loads(answer.stdout)["doubts"] == [], answer.stderr
    folder = catalogue.ROOT / answer.stderr.rpartition("record and report: ")[2].split()[0]
    proved = (folder / "record.jsonl").read_text()

    assert "source has back_log=118 (both.cnf line 13)" in proved
    assert "source has back_log=80 (both.cnf line 9)" in proved


@pytest.mark.long
def test_pairs_of_engines_and_files_are_measured_each_on_its_own_server(command, tmp_path):
    """As the recipes show it: the old version with its file, and the new one with its own; no file on the other."""
    for name, value in (("old.cnf", 71), ("new.cnf", 72)):
        (tmp_path / name).write_text(f"[mysqld]\nback_log = {value}\n")
    files = {"mysql-5.7": "old.cnf", "mysql-8.0": "new.cnf"}
    pairs = [f"engine={engine},cnf={tmp_path / file}" for engine, file in files.items()]
    few = ("--duration", "1", "--runs", "3", "--margin", "100%", "--noise", "accept", "--json")
    answer = command("ask", "async", *(word for pair in pairs for word in ("--case", pair)), *few)
    assert answer.stdout, answer.stderr
    assert json.loads(answer.stdout)["doubts"] == [], answer.stderr
    folder = catalogue.ROOT / answer.stderr.rpartition("record and report: ")[2].split()[0]
    lines = [json.loads(line) for line in (folder / "record.jsonl").read_text().splitlines()]
    seen = {
        (line["engine"], proof["what"], proof["ok"])
        for line in lines
        if line["event"] == "measurement"
        for proof in line["proofs"]
        if "back_log" in proof["what"]
    }

    assert seen == {
        (engine, f"{node} has back_log={value} ({file} line 2)", True)
        for engine, value, file in (("mysql-5.7", 71, "old.cnf"), ("mysql-8.0", 72, "new.cnf"))
        for node in ("source", "replica")
    }


def test_a_program_that_cannot_be_asked_is_an_error(docker):
    """Such as one of an image without a server: `lab up` has refused it before."""
    images.ensure(["toxiproxy"])
    with pytest.raises(LabError):
        option_check.program("replication-lab/toxiproxy")
