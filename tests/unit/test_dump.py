"""Are dumps of many tools handed to a server's client as they are, and is one refused that a lab cannot take?"""

import shutil

import pytest
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.question.sql_text import (
    ELSEWHERE,
    ON_ONE_COPY,
    REPLICATES,
    lines_of,
    refuse,
)
from replication_lab.world import catalogue, given_texts

DUMPS = catalogue.ROOT / "tests" / "files" / "dumps"
WHOLE = ("mysqldump.sql", "phpmyadmin.sql", "fails.sql")


def dump(name):
    return given_texts.read(DUMPS / name)


def test_texts_in_strings_stay_as_they_are():
    """Characters that separate lines elsewhere, and a line that begins like a command of the client."""
    text = "INSERT INTO t VALUES ('a\x0bb\u2028c\x85d\nsource code\nsource of it.\nsource a.b\n');"

    assert [line.text for line in lines_of(GivenFile("a.sql", f"{text}\r\n"))] == text.split("\n")


@pytest.mark.parametrize("name", WHOLE)
def test_a_dump_reaches_the_client_line_by_line(name):
    """DELIMITER, DEFINER, version comments and strings are the client's own business."""
    lines = lines_of(dump(name))

    assert [line.text for line in lines] == (DUMPS / name).read_text().splitlines()
    assert [line.place for line in lines] == [f"{name} line {number + 1}" for number in range(len(lines))]
    refuse(dump(name), ON_ONE_COPY, ELSEWHERE)


def test_the_sandbox_of_mariadbs_client_is_left_out():
    """A client of MySQL ends with an error there; the lines keep their numbers."""
    lines = lines_of(dump("mariadb-dump.sql"))

    assert lines[0].text == "" and lines[1].text.startswith("-- MariaDB dump")


def test_files_that_a_dump_reads_are_beside_it():
    """In its own folder and in one below, each with its own lines."""
    places = {line.place: line.text for line in lines_of(dump("employees/employees.sql"))}

    assert places["load_items.dump line 2"] == "(2,'b');"
    assert places["more/load_more.sql line 1"] == "INSERT INTO item VALUES (3,'c');"
    assert places["last.sql line 1"] == "INSERT INTO item VALUES (4,'d');"
    assert not any(text.startswith("source") for text in places.values())


@pytest.mark.parametrize("name", ["shop.item.00002.sql.zst", "shop.item.00000.dat", "notes"])
def test_a_folder_of_mydumper_with_a_file_that_would_be_left_out_is_refused(name, tmp_path, refused):
    """Rows could be in it."""
    folder = shutil.copytree(DUMPS / "mydumper", tmp_path / "mydumper")
    (folder / name).write_bytes(b"rows")

    error = refused(given_texts.read, folder)

    assert f"has {name}, which would not be read" in error.found and "unpack the files" in str(error)


def test_a_folder_of_mydumper_is_read_in_the_order_in_which_its_files_are_needed():
    """The database, tables, rows, a view, a trigger; not its metadata."""
    lines = lines_of(dump("mydumper"))
    files = list(dict.fromkeys(line.place.partition(" line ")[0] for line in lines))

    assert [file for file in files if file != "mydumper.sql"] == [
        "shop-schema-create.sql",
        "shop.item-schema.sql",
        "shop.names-schema.sql",
        "shop.item.00000.sql",
        "shop.item.00001.sql",
        "shop.names-schema-view.sql",
        "shop.item-schema-triggers.sql",
    ]
    assert [line.text for line in lines if line.text.startswith("USE")] == ["USE `shop`;"]


def test_a_folder_of_mydumper_is_a_schema_of_a_question(tmp_path, refused):
    """Its only database becomes the default one, which the load uses; several cannot."""
    file = given_texts.read_for_a_record(DUMPS / "mydumper")
    refuse(file, ELSEWHERE)
    assert lines_of(file)[0].place == "shop.item-schema.sql line 1"
    assert not any("DATABASE" in line.text or line.text.startswith("USE") for line in lines_of(file))

    folder = shutil.copytree(DUMPS / "mydumper", tmp_path / "several")
    (folder / "other.orders-schema.sql").write_text("CREATE TABLE `orders` (`id` int);")
    assert "another database than lab" in str(refused(refuse, given_texts.read_for_a_record(folder), ELSEWHERE))


@pytest.mark.parametrize("names", [(), ("README",), ("notes.txt", "metadata")])
def test_another_folder_is_no_dump(tmp_path, names, refused):
    """It has none of mydumper's files."""
    for name in names:
        (tmp_path / name).write_text("SELECT 1;")

    assert "cannot be read: Is a directory" in refused(given_texts.read, tmp_path).found


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ((DUMPS / "warning.sql").read_text(), 1, "mysqldump: [Warning] Using a password on the command line "),
        ("-- dump\n\nmysqldump: Couldn't execute 'SHOW'\nSELECT 'a';", 3, "mysqldump: Couldn't execute 'SHOW'"),
        ("Warning: A partial dump from a server that has GTIDs\nSET NAMES utf8;", 1, "Warning: A partial dump"),
        ("/* a\n comment */\nEnter password: \nDROP TABLE t;", 3, "Enter password:"),
    ],
)
def test_a_message_of_a_tool_is_named_by_its_line(text, line, said, refused):
    """It is no statement, whatever its quotes do to the next lines."""
    error = refused(lines_of, GivenFile("a.sql", text))

    assert error.found.startswith(f"a.sql line {line}: `{said}") and "no word of SQL" in error.found


@pytest.mark.parametrize(
    "text",
    [
        "/*!40101 SET NAMES utf8 */;\n",
        "/*M!100616 SET NOTE_VERBOSITY=0 */;\n",
        "# a\n--\n-- b\n;\nselect 1",
        "(SELECT 1);",
        "delimiter //\nDROP TABLE t//",
        "\\d //\nDROP TABLE t//",
        "/* a */ WITH a AS (SELECT 1) SELECT * FROM a;",
    ],
)
def test_what_a_client_takes_is_sql(text):
    """The first statement may be a comment for some versions, or a command of the client."""
    assert lines_of(GivenFile("a.sql", text))


def test_every_line_that_sets_what_is_for_one_copy_is_named(refused):
    """Not the line that reads it, and not a value that looks like one."""
    error = refused(refuse, dump("gtids.sql"), ON_ONE_COPY)

    assert [line.strip() for line in error.found.splitlines()[1:]] == [
        "gtids.sql line 11: it sets SQL_LOG_BIN",
        "gtids.sql line 17: it sets GTID_PURGED",
        "gtids.sql line 22: it sets SQL_LOG_BIN",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SET @a = @@SESSION.SQL_LOG_BIN;",
        "INSERT INTO t VALUES ('SET sql_log_bin = 0');",
        "SELECT @@sql_log_bin = 0;",
        "SET @a = 1;\nSELECT 'sql_log_bin = 0';",
    ],
)
def test_what_only_reads_it_is_not(text):
    """As a dump that keeps its value for later."""
    refuse(GivenFile("a.sql", text), ON_ONE_COPY)


@pytest.mark.parametrize(
    "text",
    [
        "SET SESSION sql_log_bin = 0;",
        "SET NAMES utf8, sql_log_bin := 0;",
        "/*!50606 SET @@SESSION.SQL_LOG_BIN=0 */;",
        "SET\n  @@GLOBAL.GTID_PURGED='a:1';",
        "SELECT ';'; SET sql_log_bin = 0",
        "set @a = 1, sql_log_bin = off;",
    ],
)
def test_what_sets_it_in_any_way_is_refused(text, refused):
    """The sabotage: the other copies would lack the rows."""
    assert "the other copies would lack the rows" in refused(refuse, GivenFile("a.sql", text), ON_ONE_COPY).found


@pytest.mark.parametrize(
    "text",
    [
        "CHANGE MASTER TO MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=154;",
        "/*!50000 CHANGE MASTER TO MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=154 */;",
        "change replication source to source_log_file='bin.000003', source_log_pos=154;",
        "STOP SLAVE;",
        "STOP ALL SLAVES;",
        "START REPLICA FOR CHANNEL 'a';",
        "RESET MASTER;",
        "RESET BINARY LOGS AND GTIDS;",
        "SET GLOBAL gtid_slave_pos='0-1-100';",
        "STOP /* for a while */ SLAVE;",
        "SELECT 1; STOP SLAVE;",
        "STOP SLAVE",
        "DELIMITER //\n\nSTOP SLAVE//",
    ],
)
def test_what_changes_replication_is_refused(text, refused):
    """The sabotage: as mysqldump writes it with --master-data; the lab's source would have a source."""
    error = refused(refuse, GivenFile("a.sql", f"SET NAMES utf8;\n{text}\n"), REPLICATES)

    line = 4 if text.startswith("DELIMITER") else 2
    assert f"a.sql line {line}: `" in error.found and "how the lab's nodes replicate" in error.found


@pytest.mark.parametrize(
    "text",
    [
        "-- CHANGE MASTER TO MASTER_LOG_FILE='bin.000003', MASTER_LOG_POS=154;",
        "INSERT INTO t VALUES ('CHANGE MASTER TO\\nSTOP SLAVE;');",
        "CREATE TABLE change_master (id int);",
        "INSERT INTO t VALUES ('a\nStart master class at nine');",
        "INSERT INTO t VALUES ('a'),\n('how to:\nSTOP SLAVE;\nSTART SLAVE;');",
        'INSERT INTO t VALUES ("it\\"s\nCHANGE MASTER TO MASTER_PORT=1;");',
        "/* before\nSTOP SLAVE;\n*/ SELECT 1;",
        "CREATE TABLE t (`a\nSTOP SLAVE;` int);",
        "DELIMITER ;;\nCREATE PROCEDURE p()\nBEGIN\n  STOP SLAVE;\nEND;;\nDELIMITER ;\n",
        "\\d //\nCREATE PROCEDURE p() BEGIN\nSTOP SLAVE;\nEND//\n",
    ],
)
def test_what_only_names_replication_is_not(text):
    """As the comments of a dump, and a text in a row."""
    refuse(GivenFile("a.sql", text), REPLICATES)


@pytest.mark.parametrize(
    ("content", "said", "next_step"),
    [
        ("SELECT 1;\r\n".encode("utf-16"), "is not text: it is UTF-16", "iconv -f UTF-16"),
        (b"SELECT 1;\nSELECT _binary '\xff\xfe';\n", "byte 26, in line 2, is not UTF-8", "iconv -f latin1"),
    ],
)
def test_a_dump_in_another_character_set_is_refused_with_the_way_on(tmp_path, content, said, next_step, refused):
    """As PowerShell writes it, and as mysqldump writes columns of bytes."""
    (tmp_path / "a.sql").write_bytes(content)
    error = refused(given_texts.read, tmp_path / "a.sql")

    assert said in error.found and next_step in error.next_step and "--hex-blob" in error.expected


def test_files_that_read_each_other_come_to_an_end(tmp_path, refused):
    """The sabotage; a client would read them for ever."""
    (tmp_path / "a.sql").write_text("SELECT 1;\nsource b.sql\n")
    (tmp_path / "b.sql").write_text("source a.sql\n")

    assert "source" in refused(lines_of, given_texts.read(tmp_path / "a.sql")).found
