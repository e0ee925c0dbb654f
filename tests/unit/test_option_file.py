"""Is a my.cnf file read as a server reads it, and is one refused that cannot be proved or that breaks the lab?"""

import pytest
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.variable import is_same
from replication_lab.model.lab.option_file import (
    Option,
    StartOptions,
    causes,
    flat_text,
    groups_of,
    options_of,
    refuse_both,
    suspected,
)
from replication_lab.model.lab.reserved_options import RESERVED
from replication_lab.model.lab.server_version import parse_version
from replication_lab.world import catalogue, given_texts

from tests.fakes.lab import FILE

FILES = catalogue.ROOT / "tests" / "files" / "cnf"
MARIADB, MYSQL_5_5, MYSQL_8_0 = map(parse_version, ("11.8.9-MariaDB", "5.5.34", "8.0.33"))


def of(text: str) -> GivenFile:
    return GivenFile("a.cnf", text)


def values(name: str, version=None) -> dict[str, str]:
    return {option.name: option.value for option in options_of(given_texts.read(FILES / name), version)}


def test_options_are_read_in_all_spellings_of_a_server():
    """Switches, loose options, comments, quotes and escapes; the groups of other programs are left out."""
    found = [
        (option.name, option.value, option.place)
        for option in options_of(given_texts.read(FILES / "written-in-many-ways.cnf"))
    ]

    name = "written-in-many-ways.cnf line"
    assert found == [
        ("innodb_flush_method", "O_DIRECT", f"{name} 3"),
        ("sync_binlog", "0", f"{name} 4"),
        ("innodb_doublewrite", "OFF", f"{name} 5"),
        ("innodb_stats_persistent", "OFF", f"{name} 6"),
        ("general_log", "ON", f"{name} 7"),
        ("skip_name_resolve", "ON", f"{name} 8"),
        ("innodb_file_per_table", "ON", f"{name} 9"),
        ("innodb_buffer_pool_size", "1G", f"{name} 10"),
        ("max_allowed_packet", "64M", f"{name} 11"),
        ("tmpdir", "/var/tmp", f"{name} 12"),
        ("init_connect", 'SET NAMES "utf8mb4" # not a comment', f"{name} 13"),
        ("init_file_text", "it's\ta tab", f"{name} 14"),
        ("sql_mode", "", f"{name} 15"),
        ("low_priority_updates", "ON", f"{name} 23"),
    ]


@pytest.mark.parametrize(
    ("asked", "found"),
    [("64K", 65536), ("64m", 67108864), ("1G", 1 << 30), ("2T", 2 << 40), ("1P", 1 << 50), ("1E", 1 << 60), ("", "")],
)
def test_sizes_are_compared_in_every_unit(asked, found):
    """A server returns bytes."""
    assert is_same(asked, found)


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (MYSQL_5_5, {"sync_binlog": "1", "back_log": "55"}),
        (MYSQL_8_0, {"sync_binlog": "1", "back_log": "80", "innodb_read_io_threads": "8"}),
        (MARIADB, {"sync_binlog": "1", "back_log": "118", "innodb_read_io_threads": "6"}),
    ],
)
def test_each_server_reads_the_groups_of_its_version(version, found):
    """One file for several servers."""
    assert values("both.cnf", version) == found


def test_capitals_in_a_group_do_not_count_and_a_blank_before_it_does():
    """So every server reads it, by what it prints."""
    found = options_of(of("[MySQLd]\nback_log = 1\n[ mysqld ]\nsync_binlog = 5\n[mysqld ]\ntmpdir = /tmp\n"), MARIADB)
    assert [option.name for option in found] == ["back_log", "tmpdir"]


@pytest.mark.parametrize("text", ["[mysqld-5.7]\nback_log=1\n", "[mariadb-10.11]\nback_log=1\n", "[client]\nport=1\n"])
def test_a_file_without_an_option_for_a_server_is_refused(text, refused):
    """The sabotage: the server would run without any of it. The message names the groups of both."""
    error = refused(options_of, of(text), MARIADB)

    assert error.found == f"a.cnf has no option for MariaDB 11.8.9; it has {text.splitlines()[0]}"
    assert "mariadb-11.8" in error.expected


@pytest.mark.parametrize("charset", ["latin-1", "gbk", "utf-8-sig"])
def test_a_comment_may_be_in_any_character_set(tmp_path, charset, refused):
    """A server does not read it; other bytes are told with their line. U+2028 is part of a line for it, too."""
    file = tmp_path / "my.cnf"
    file.write_bytes("[mysqld]\n# 十二 Zw\xf6lf\nback_log = 70 # gr\xf6\xdfer\n".encode(charset, "replace"))
    assert [option.place for option in options_of(given_texts.read(file))] == ["my.cnf line 3"]
    assert [option.name for option in options_of(of("[mysqld]\n# a\u2028sync_binlog = 1\nback_log = 70"))] == [
        "back_log"
    ]

    file.write_bytes(b"[mysqld]\nback_log = 70\ninit_connect = 'SET @a = \xf6'\n")
    assert "my.cnf line 3: " in refused(options_of, given_texts.read(file)).found


def test_the_groups_of_the_families_differ():
    """MariaDB has more."""
    assert set(groups_of(MYSQL_5_5)) == {"mysql_cluster", "mysqld", "server", "mysqld-5.5"}
    assert {"mysqld-11.8", "mariadb-11.8", "mariadbd-11", "galera", "client-server"} < set(groups_of(MARIADB))


def test_of_a_repeated_option_the_last_one_counts_and_this_is_said():
    """Whatever its spelling and its group."""
    found = {option.name: option for option in options_of(given_texts.read(FILES / "repeated.cnf"))}

    assert (found["sync_binlog"].value, found["back_log"].value) == ("5", "80")
    assert found["sync_binlog"].place == "repeated.cnf line 7, not 1 of repeated.cnf line 5"
    assert found["back_log"].place == "repeated.cnf line 9, not 70 of repeated.cnf line 8"


# --- files that include others ----------------------------------------------------------------------------------------


def test_folders_beside_the_file_are_read_as_the_server_reads_them():
    """Their files *.cnf in the order of their names; afterwards the group of the file goes on."""
    file = given_texts.read(FILES / "debian" / "my.cnf")
    found = {option.name: (option.value, option.place) for option in options_of(file)}

    assert found == {
        "back_log": ("75", "mysql.conf.d/20-more.cnf line 2, not 70 of mysql.conf.d/10-server.cnf line 2"),
        "innodb_read_io_threads": ("6", "my.cnf line 8"),
    }
    assert values("debian/my.cnf") == {option.name: option.value for option in options_of(of(flat_text(file)))}
    assert "!include" not in flat_text(file) and "not for a server" not in flat_text(file)


def test_a_path_is_relative_to_the_file_that_names_it():
    """An included file includes another one."""
    assert values("relative/my.cnf") == {"innodb_read_io_threads": "5", "sync_binlog": "7", "back_log": "90"}


@pytest.mark.parametrize(
    "line", ["!include other.cnf", "!include ../my.cnf", "!includedir /etc/mysql/conf.d/", "!include"]
)
def test_what_is_not_beside_the_file_is_named(tmp_path, line, refused):
    """With its line; a file above the folder is not read."""
    (tmp_path / "a").mkdir()
    (tmp_path / "my.cnf").write_text("[mysqld]\nback_log = 1\n")
    (tmp_path / "a" / "a.cnf").write_text(f"[mysqld]\nback_log = 2\n{line}\n")
    error = refused(options_of, given_texts.read(tmp_path / "a" / "a.cnf"))

    assert error.found.startswith("a.cnf line 3: ") and "beside" in error.found


def test_files_that_include_each_other_come_to_an_end(tmp_path, refused):
    """The sabotage; a server would read them until it crashes."""
    (tmp_path / "a.cnf").write_text("[mysqld]\nback_log = 2\n!include b.cnf\n")
    (tmp_path / "b.cnf").write_text("!include a.cnf\n")

    assert "!include" in refused(options_of, given_texts.read(tmp_path / "a.cnf")).found


# --- what a server must not get ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a.cnf has no option"),
        ("[mysqld]\n# nothing\n", "a.cnf has no option"),
        ("sync_binlog = 0\n", "a.cnf line 1: 'sync_binlog = 0' is in no group"),
        ("[client]\nport = 1\n", "a.cnf has no option; it has [client]"),
        ("[mysqld\nsync_binlog = 0\n", "a.cnf line 1: '[mysqld' is not a group"),
        ("[mysqld]\n!include /etc/other.cnf\n", "line 2"),
        ("[mysqld]\n\nsync binlog = 0\n", "a.cnf line 3: 'sync binlog = 0' is not an option"),
        ("[mysqld]\n= 0\n", "line 2"),
        ("[mysqld]\ninit_connect = 'SET a\n", 'a.cnf line 2: the quote in "\'SET a" is never closed'),
        ("[mysqld]\nmaximum-sort_buffer_size = 1M\n", "a.cnf line 2: maximum-sort_buffer_size bounds"),
        ("[mysqld]\nserver-id = 4\n", "a.cnf line 2: server_id cannot be set: the lab gives each node its own number"),
        ("[mysqld]\nskip-log-bin\n", "a.cnf line 2: log_bin cannot be set"),
        ("[mysqld]\nloose-plugin-load-add = x.so\n", "plugin_load_add cannot be set"),
        ("[mysqld]\nwsrep_cluster_address = gcomm://\n", "wsrep_cluster_address cannot be set"),
        ("[mysqld]\nrpl_semi_sync_master_enabled = 1\n", "rpl_semi_sync_master_enabled cannot be set"),
    ],
)
def test_a_file_that_a_server_cannot_be_given_is_refused(text, said, refused):
    """The message names file and line."""
    assert said in refused(options_of, of(text)).found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ((FILES / "mistakes.cnf").read_text(), (4, 5, 6, 12, 13)),
        ("[mysqld]\nuser = mysql\ndatadir = /data\nsync_binlog = 1\n!includedir /etc/conf.d\n", (2, 3, 5)),
        ('port = 1\n[mysqld]\nport = 1\ninit_connect = "a\n', (1, 3, 4)),
    ],
)
def test_all_lines_that_are_not_for_a_server_are_named_at_once(text, lines, refused):
    """Each with what to do."""
    error = refused(options_of, of(text))
    first, *told = error.found.splitlines()

    assert first == f"a.cnf has {len(lines)} lines that are not for the lab's servers:"
    assert [line.split(":")[0].strip() for line in told] == [f"a.cnf line {number}" for number in lines]
    assert all("; " in line for line in told)


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
    assert [(option.name, option.value) for option in options.options()] == [
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


# --- a server that did not start --------------------------------------------------------------------------------------

# As MariaDB 11.8, MySQL 8.4 and MySQL 5.5 say that there is not enough memory.
TOO_LARGE = {
    "mariadb": """\
2026-11-28 12:03:28 0 [Note] InnoDB: innodb_buffer_pool_size_max=8388608m, innodb_buffer_pool_size=49152m
2026-11-28 12:03:28 0 [ERROR] mariadbd: Out of memory (Needed 0 bytes)
2026-11-28 12:03:28 0 [ERROR] InnoDB: Cannot map innodb_buffer_pool_size_max=8388608m
2026-11-28 12:03:28 0 [ERROR] InnoDB: Plugin initialization aborted with error Generic error
2026-11-28 12:03:28 0 [Note] InnoDB: Starting shutdown...
2026-11-28 12:03:28 0 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.
2026-11-28 12:03:28 0 [ERROR] Unknown/unsupported storage engine: InnoDB
2026-11-28 12:03:28 0 [ERROR] Aborting
""",
    "mysql-8.4": """\
2026-11-28T12:03:31.8Z 1 [ERROR] [MY-012681] [InnoDB] mmap(137363456 bytes) failed; errno 12
2026-11-28T12:03:31.8Z 1 [ERROR] [MY-012956] [InnoDB] Cannot allocate memory for the buffer pool
2026-11-28T12:03:31.8Z 1 [ERROR] [MY-012930] [InnoDB] Plugin initialization aborted with error Generic error.
2026-11-28T12:03:32.3Z 1 [ERROR] [MY-010334] [Server] Failed to initialize DD Storage Engine
2026-11-28T12:03:32.3Z 0 [ERROR] [MY-010020] [Server] Data Dictionary initialization failed.
2026-11-28T12:03:32.3Z 0 [ERROR] [MY-010119] [Server] Aborting
""",
    "mysql-5.5": """\
261128 12:03:54 InnoDB: Initializing buffer pool, size = 48.0G
InnoDB: mmap(52747567104 bytes) failed; errno 12
261128 12:03:54 InnoDB: Fatal error: cannot allocate memory for the buffer pool
261128 12:03:54 [ERROR] Plugin 'InnoDB' init function returned error.
261128 12:03:54 [ERROR] Plugin 'InnoDB' registration as a STORAGE ENGINE failed.
261128 12:03:54 [ERROR] Aborting
""",
}


@pytest.mark.parametrize("log", TOO_LARGE.values(), ids=TOO_LARGE)
def test_the_cause_is_told_and_not_what_follows_from_it(log):
    """And the option that it is about, with its line."""
    options = options_of(given_texts.read(FILES / "buffer-pool.cnf"))

    assert [error for error in causes(log) if "Generic" in error or "STORAGE ENGINE" in error] == []
    assert [option.place for option in suspected(causes(log), options)] == ["buffer-pool.cnf line 4"]


@pytest.mark.parametrize(
    ("error", "option"),
    [
        ("mysqld: unknown variable 'no-such=1'", Option("no_such", "1")),
        ("Unknown collation: 'utf8mb4_swedish'", Option("collation_server", "utf8mb4_swedish")),
        ("mysqld: Can't create/write to file '/nowhere/ibXX' (Errcode: 2)", Option("tmpdir", "/nowhere")),
        ("Different lower_case_table_names settings for server ('1')", Option("lower_case_table_names", "1")),
    ],
)
def test_an_error_is_about_an_option_by_its_name_its_words_or_its_value(error, option):
    """No other one of the file is named."""
    assert suspected([error], [Option("sync_binlog", "1"), option, Option("back_log", "60")]) == [option]


def test_the_last_errors_of_a_log_are_told():
    """Not that the server ends because of them; all of a log without any is its last line."""
    log = "Note\n2026 0 [ERROR] mysqld: unknown variable 'a=1'\n2026 0 [ERROR] Aborting\n\nbye\n"

    assert causes(log) == ["mysqld: unknown variable 'a=1'"]
    assert causes("one\ntwo\n") == ["two"]
    assert causes("[ERROR] InnoDB: Generic error\n") == ["InnoDB: Generic error"]


def test_what_ended_a_node_of_a_cluster_is_told():
    """Galera's library logs later that the state transfer did not end; without other errors that is shown."""
    wsrep = "2026 0 [ERROR] WSREP: Application state transfer failed.\n"

    assert causes(f"2026 0 [ERROR] mariadbd: unknown variable 'a=1'\n{wsrep}") == ["mariadbd: unknown variable 'a=1'"]
    assert causes(wsrep) == ["WSREP: Application state transfer failed."]
