"""Is a my.cnf file read as a server reads it, and is one refused that cannot be proved or that breaks the lab?"""

import pytest
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.option_file import RESERVED, StartOptions, last_errors, options_of, refuse_both
from replication_lab.world import catalogue

from tests.fakes.lab import FILE


def of(text: str) -> GivenFile:
    return GivenFile("a.cnf", text)


def test_options_are_read_with_their_lines():
    """Spellings, comments, quotes, a switch without a value."""
    text = """# mine
[mysqld]
innodb-flush-method = O_DIRECT   # not the page cache
Sync_Binlog=0

[server]
; nothing
loose-low-priority-updates
init_connect = 'SET NAMES "utf8mb4" # not a comment'
"""

    found = [(option.name, option.value, option.place) for option in options_of(of(text))]

    assert found == [
        ("innodb_flush_method", "O_DIRECT", "a.cnf line 3"),
        ("sync_binlog", "0", "a.cnf line 4"),
        ("low_priority_updates", "ON", "a.cnf line 8"),
        ("init_connect", 'SET NAMES "utf8mb4" # not a comment', "a.cnf line 9"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.cnf has no option"),
        ("[mysqld]\n# nothing\n", "a.cnf has no option"),
        ("sync_binlog = 0\n", "a.cnf line 1: 'sync_binlog = 0' is in no group"),
        ("[client]\nport = 1\n", "a.cnf line 1: '[client]' is not for the server"),
        ("[mysqld-8.0]\nsync_binlog = 0\n", "line 1"),
        ("[mysqld\nsync_binlog = 0\n", "line 1"),
        ("[mysqld]\n!include /etc/other.cnf\n", "line 2"),
        ("[mysqld]\n\nsync binlog = 0\n", "a.cnf line 3: 'sync binlog = 0' is not an option"),
        ("[mysqld]\n= 0\n", "line 2"),
        ("[mysqld]\ninit_connect = a\\nb\n", "backslash"),
        ("[mysqld]\nsync_binlog = 0\nsync-binlog = 1\n", "a.cnf line 3: sync_binlog is in a.cnf line 2 already"),
        ("[mysqld]\nserver-id = 4\n", "a.cnf line 2: server_id cannot be set: the lab gives each node its own number"),
        ("[mysqld]\nloose-plugin-load-add = x.so\n", "plugin_load_add cannot be set"),
        ("[mysqld]\nwsrep_cluster_address = gcomm://\n", "wsrep_cluster_address cannot be set"),
        ("[mysqld]\nrpl_semi_sync_master_enabled = 1\n", "rpl_semi_sync_master_enabled cannot be set"),
    ],
)
def test_a_file_that_a_server_cannot_be_given_is_refused(text, said, refused):
    """The message names file and line."""
    assert said in refused(options_of, of(text)).found


def test_all_lines_that_are_not_for_a_server_are_named_at_once(refused):
    """As of a my.cnf that a server of one's own has; the lines of a client's group are left out with it."""
    text = "[client]\nport = 3306\n[mysqld]\nuser = mysql\ndatadir = /data\nsync_binlog = 1\n!includedir /etc/conf.d\n"
    error = refused(options_of, of(text))
    first, *lines = error.found.splitlines()

    assert first == "a.cnf has 4 lines that are not for the lab's servers:"
    assert [line.split(":")[0].strip() for line in lines] == [f"a.cnf line {number}" for number in (1, 4, 5, 7)]
    assert error.next_step.startswith("remove these lines from a copy of the file")


def test_options_of_the_lab_are_reserved_with_a_reason():
    """What compose/ sets for a server to be found, to replicate and to be compared."""
    own = (
        "server_id",
        "log_bin",
        "gtid_mode",
        "gtid_strict_mode",
        "read_only",
        "datadir",
        "port",
        "socket",
        "wsrep_on",
    )

    assert all(name in RESERVED or f"{name}*" in RESERVED for name in own)
    assert all(RESERVED.values())


@pytest.mark.parametrize(
    ("setting", "variable", "collides"),
    [
        ("cnf", "sync_binlog", True),
        ("cnf", "source.sync_binlog", True),
        ("source.cnf", "sync_binlog", True),
        ("source.cnf", "source.sync_binlog", True),
        ("source.cnf", "replica.sync_binlog", False),
        ("cnf", "innodb_io_capacity", False),
    ],
)
def test_a_variable_that_is_set_twice_on_a_node_is_refused(setting, variable, collides, refused):
    """A file and a setting cannot both be in force."""
    asked = (setting, of("[mysqld]\nsync_binlog = 0\n"), [variable])

    if collides:
        assert f"{variable} is set by an option and by a.cnf line 2" in refused(refuse_both, *asked).found
    else:
        refuse_both(*asked)


def test_a_nodes_file_is_the_users_with_the_variables_behind():
    """Each option of it is compared later."""
    options = StartOptions(of("[server]\nlow_priority_updates"), {"innodb_page_cleaners": "1"})

    assert options.text == "[server]\nlow_priority_updates\n[mysqld]\ninnodb_page_cleaners = 1\n"
    assert [(option.name, option.value) for option in options.options] == [
        ("low_priority_updates", "ON"),
        ("innodb_page_cleaners", "1"),
    ]
    assert StartOptions().text == ""


def test_the_file_is_read_after_those_of_the_lab():
    """A server reads a folder's files in the order of their names; the later one wins."""
    parts = [catalogue.ROOT / "compose" / name for name in ("_parts.yaml", "_group.yaml")]
    targets = [line for part in parts for line in part.read_text().splitlines() if "/etc/mysql/conf.d/" in line]
    names = [line.partition("/etc/mysql/conf.d/")[2].partition(",")[0] for line in targets]

    assert len(names) >= 3 and all(name < FILE.rpartition("/")[2] for name in names)


def test_the_last_errors_of_a_log_are_told():
    """Not that the server ends because of them; all of a log without any is its last line."""
    log = "Note\n2026 0 [ERROR] mysqld: unknown variable 'a=1'\n2026 0 [ERROR] Aborting\n\nbye\n"

    assert last_errors(log) == ["mysqld: unknown variable 'a=1'"]
    assert last_errors("one\ntwo\n") == ["two"]


def test_what_ended_a_node_of_a_cluster_is_told():
    """Galera's library logs later that the state transfer did not end; without other errors that is shown."""
    wsrep = "2026 0 [ERROR] WSREP: Application state transfer failed.\n"

    assert last_errors(f"2026 0 [ERROR] mariadbd: unknown variable 'a=1'\n{wsrep}") == [
        "mariadbd: unknown variable 'a=1'"
    ]
    assert last_errors(wsrep) == ["WSREP: Application state transfer failed."]
