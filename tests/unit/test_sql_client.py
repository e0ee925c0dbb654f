"""Is what a server's client says of a file told as it is: the line, the number, and what became of the statement?"""

import os

import pytest
from replication_lab.world.docker import sql_client

CLIENT = """#!/bin/sh
echo "$*" > {folder}/command
cat > {folder}/read
{says}
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Return a function that runs SQL by a program in place of Docker's, which ends as a script says."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    class Node:
        container, site = type("Container", (), {"name": "lab-a-source-1"}), ""

    def run(says, sql="SELECT 1;\nSELECT 2;"):
        program = tmp_path / "docker"
        program.write_text(CLIENT.format(folder=tmp_path, says=says))
        program.chmod(0o755)
        return sql_client.run(Node(), ["mariadb", "-uroot", "lab"], "secret", sql, str)

    return run


def test_a_client_gets_the_text_as_it_is_and_the_password_by_its_environment(client, tmp_path):
    """Arguments are visible to other users."""
    assert client("echo 7", "SELECT 'ä';\nDELIMITER //") is None
    assert (tmp_path / "read").read_text() == "SELECT CONNECTION_ID();\nSELECT 'ä';\nDELIMITER //\n"
    assert "lab-a-source-1 mariadb -uroot lab" in (tmp_path / "command").read_text()
    assert "secret" not in (tmp_path / "command").read_text()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("ERROR 1146 (42S02) at line 3: Table 'lab.t' doesn't exist", (2, 1146, "Table 'lab.t' doesn't exist")),
        ("ERROR 2013 (HY000) at line 2: Lost connection to server", (1, 2013, "Lost connection to server")),
        ("mysql: [Warning] x\nERROR 1064 (42000) at line 4: near 'a: b'", (3, 1064, "near 'a: b'")),
        ("ERROR at line 5: Unknown command '\\-'.", (4, 0, "Unknown command '\\-'.")),
        ("Killed", (None, None, "Killed")),
    ],
)
def test_an_error_has_the_line_of_the_file(client, tmp_path, said, found):
    """The lab's own first line is not counted. Without a number the statement was never sent."""
    (tmp_path / "said").write_text(said)

    assert client(f"echo 7; cat {tmp_path}/said >&2; exit 1") == found


def test_a_client_without_a_session_has_sent_nothing(client):
    """Its outcome is known."""
    said = "ERROR 2002 (HY000): Can't connect to local server through socket"

    assert client(f'echo "{said}" >&2; exit 1') == (None, 0, "Can't connect to local server through socket")


def test_many_rows_of_a_file_do_not_stop_its_client(client):
    """Nothing waits for a pipe that is full."""
    assert client("echo 7; head -c 10000000 /dev/zero") is None
