"""Are the options of a my.cnf checked by the server's own program, all of them at once, before anything starts?"""

import pytest
from replication_lab.lab import up as labs
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.option_file import StartOptions
from replication_lab.world import catalogue, given_texts
from replication_lab.world.docker import engine, option_check, project, servers

FILES = catalogue.ROOT / "tests" / "files" / "cnf"
HELP = """\
/usr/sbin/mysqld  Ver {} for Linux on x86_64
The following options may be given as the first argument:
  --sync-binlog=#

Variables (--variable-name=value)
and boolean options {{FALSE|TRUE}}                             Value (after reading options)
------------------------------------------------------------- -------------
back-log                                                      80
binlog-format                                                 ROW
innodb-buffer-pool-size                                       134217728
innodb-read-io-threads                                        4
max-connections                                               151
sync-binlog                                                   1

To see what values a running MySQL server is using, type
"""
CHANGED = "[Warning] [MY-000081] [Server] option 'innodb-read-io-threads': unsigned value 1000 adjusted to 64."
VALUES = {
    'binlog_format = "ROWS"': "'ROWS' to 'binlog_format'",
    'max_connections = "10Q"': "'10Q' to 'max_connections'",
}


@pytest.fixture
def asked(monkeypatch):
    """Stand in for the program in an image; return the scripts that it was asked, and a way to set its version."""
    scripts, version = [], ["8.0.33"]

    def said_by(_image, script, environment=None):
        scripts.append(script)
        if not environment:
            return 0, HELP.format(version[0])
        options = environment["LAB_OPTIONS"]
        # Like the program, it ends at the first error.
        wrong = next((said for text, said in VALUES.items() if text in options), "")
        error = f"2026 0 [ERROR] [MY-000077] [Server] /usr/sbin/mysqld: Error while setting value {wrong}.\n"
        return (1, error) if wrong else (0, CHANGED if "1000" in options else "")

    monkeypatch.setattr(option_check.images, "said_by", said_by)
    monkeypatch.setattr(servers, "image_of", lambda text: text)
    yield scripts, version
    option_check.program.cache_clear()
    option_check.complaints.cache_clear()


def misspelt():
    return given_texts.read(FILES / "misspelt.cnf")


def test_all_options_that_a_server_does_not_take_are_named_at_once(asked, refused):
    """Unknown ones, loose ones, values that it refuses, and those that it changes; each with its line."""
    topology = catalogue.topology("semisync")
    error = refused(option_check.check, topology, "mysql-8.0", dict.fromkeys(("source", "replica"), misspelt()))

    assert [line.strip() for line in error.found.splitlines()[1:]] == [
        "misspelt.cnf line 3: innodb_read_io_thread = 8: MySQL 8.0.33 has no such option; "
        "did you mean innodb_read_io_threads? (source, replica)",
        "misspelt.cnf line 4: innodb_bufer_pool_size = 64M: MySQL 8.0.33 has no such option; "
        "did you mean innodb_buffer_pool_size? (source, replica)",
        "misspelt.cnf line 5: binlog_format = ROWS: "
        "Error while setting value 'ROWS' to 'binlog_format'. (source, replica)",
        "misspelt.cnf line 7: max_connections = 10Q: "
        "Error while setting value '10Q' to 'max_connections'. (source, replica)",
        "misspelt.cnf line 6: innodb_read_io_threads = 1000: "
        "option 'innodb-read-io-threads': unsigned value 1000 adjusted to 64. (source, replica)",
    ]


@pytest.mark.parametrize(
    ("version", "way"),
    [
        ("8.0.33", "--validate-config"),
        ("9.7.0", "--validate-config"),
        ("5.7.40", "--help"),
        ("11.8.9-MariaDB", "--help"),
    ],
)
def test_each_version_is_asked_in_its_own_way(asked, version, way):
    """Only newer versions of MySQL have a check of its own."""
    asked[1][0] = version
    option_check.complaints("an image", GivenFile("a.cnf", "[mysqld]\nback_log = 70\n"))

    assert way in asked[0][-1]


@pytest.mark.parametrize(
    ("version", "option", "refused"),
    [
        ("8.0.33", "symbolic-links = 0", True),
        ("11.8.9-MariaDB", "skip-symbolic-links", True),
        ("8.0.33", "default-time-zone = '+00:00'", True),
        ("5.6.51", "transaction-isolation = READ-COMMITTED", True),
        ("8.0.33", "transaction-isolation = READ-COMMITTED", False),
        ("11.8.9-MariaDB", "transaction-isolation = READ-COMMITTED", False),
    ],
)
def test_an_option_that_no_answer_of_a_server_shows_is_named_beforehand(asked, monkeypatch, version, option, refused):
    """The program takes it, but there is no variable of that name; with its line."""
    known = "".join(f"{each:<60} 1\n" for each in ("symbolic-links", "default-time-zone", "transaction-isolation"))
    monkeypatch.setattr(
        option_check.images,
        "said_by",
        lambda *_, **__: (0, HELP.format(version).replace("sync-binlog  ", f"{known}sync-binlog  ")),
    )
    found = option_check.complaints("an image", GivenFile("a.cnf", f"[mysqld]\n{option}\n"))

    assert [(each.place, why.partition(",")[0]) for each, why in found.items()] == (
        [("a.cnf line 2", "it is not a variable")] if refused else []
    )


def test_an_option_with_capitals_is_asked_in_the_program_s_own_spelling(asked, monkeypatch):
    """Galera's have some, and the program insists on them."""
    scripts = []

    def said_by(_image, _script, environment=None):
        scripts.append((environment or {}).get("LAB_OPTIONS", ""))
        return 0, HELP.format("11.8.9-MariaDB").replace("back-log        ", "wsrep-OSU-method")

    monkeypatch.setattr(option_check.images, "said_by", said_by)
    assert option_check.complaints("an image", GivenFile("a.cnf", "[mysqld]\nwsrep_OSU_method = RSU\n")) == {}
    assert 'wsrep_OSU_method = "RSU"' in scripts[-1]


def test_options_of_plugins_are_left_to_the_server(asked):
    """The program does not load them for a question."""
    file = GivenFile("a.cnf", "[mysqld]\nback_log = 70\ngroup_replication_member_weight = 60\n")

    assert option_check.complaints("an image", file) == {}


def test_a_program_that_says_nothing_of_the_file_refuses_nothing(asked, monkeypatch):
    """Such as one that ends for another reason: the start of the server decides."""
    monkeypatch.setattr(option_check.images, "said_by", lambda *_, **__: (1, HELP.format("8.0.33") + "[ERROR] no room"))

    assert option_check.complaints("an image", GivenFile("a.cnf", "[mysqld]\nback_log = 70\n")) == {}


def test_a_bad_file_ends_the_command_before_anything_starts(asked, monkeypatch, refused):
    """The sabotage: no container of the lab is made."""
    monkeypatch.setattr(project, "start", lambda _asked: pytest.fail("a lab was started"))
    monkeypatch.setattr(project, "all_labs", dict)
    for name in ("tidy", "placed_on"):
        monkeypatch.setattr(labs, name, lambda *_: {})
    monkeypatch.setattr(servers, "make_ready", lambda *_: None)
    monkeypatch.setattr(labs.images, "ensure", lambda _names: None)
    monkeypatch.setattr(engine, "ensure", lambda: None)
    wanted = {"replica": StartOptions(misspelt())}
    asked = LabRequest(catalogue.topology("semisync"), "mysql-8.0", "lab-a", options=wanted)

    assert "misspelt.cnf line 4" in refused(labs.up, asked, print).found
