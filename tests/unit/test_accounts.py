"""Is the account of a server found where the vendors' images have it, and does no message tell its password?"""

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker.attached_servers import accounts_for
from replication_lab.world.mysql.accounts import Account, from_environment, parse_dsn

FILES = {"/run/secrets/root": "from a file\n"}


def found(**environment):
    return [(each.user, each.password) for each in from_environment(environment, lambda path: FILES.get(path, ""))]


@pytest.mark.parametrize(
    ("environment", "accounts"),
    [
        ({"MYSQL_ROOT_PASSWORD": "a"}, [("root", "a")]),
        ({"MARIADB_ROOT_PASSWORD": "a", "MYSQL_ROOT_PASSWORD": "b"}, [("root", "a"), ("root", "b")]),
        ({"MYSQL_ROOT_PASSWORD_FILE": "/run/secrets/root"}, [("root", "from a file")]),
        ({"MYSQL_USER": "app", "MYSQL_PASSWORD": "p"}, [("app", "p")]),
        ({"MARIADB_ROOT_PASSWORD": "r", "MARIADB_USER": "app", "MARIADB_PASSWORD": "p"}, [("root", "r"), ("app", "p")]),
        ({"MYSQL_PASSWORD": "of nobody"}, []),
        ({"MYSQL_ALLOW_EMPTY_PASSWORD": "yes"}, [("root", "")]),
        ({"MYSQL_ALLOW_EMPTY_PASSWORD": "Y"}, [("root", "")]),
        ({"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "on"}, [("root", "")]),
        ({"MYSQL_ALLOW_EMPTY_PASSWORD": "no"}, [("root", "")]),
        ({"MYSQL_ALLOW_EMPTY_PASSWORD": ""}, []),
        ({}, []),
    ],
)
def test_accounts_are_read_from_the_environment(environment, accounts):
    """Administrators first."""
    assert found(**environment) == accounts


def test_a_dsn_names_its_server_and_its_account():
    """With any character in the password."""
    node, account = parse_dsn("db=mysql://ro%40ot:p%2Fss%3Dw@db:3306/shop")

    assert (node, account.user, account.password) == ("db", "ro@ot", "p/ss=w")
    assert "p/ss=w" not in repr(account)


def test_an_account_is_read_from_a_file_of_its_owner(tmp_path):
    """Its name is on the command line, which other users can read, and the password is not."""
    file = tmp_path / "my account"
    file.write_text("mysql://root:p%2Fss@\n")
    file.chmod(0o600)

    assert parse_dsn(f"db=@{file}") == ("db", Account("root", "p/ss", str(file)))


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o622])
def test_a_file_that_others_can_read_or_write_is_refused(tmp_path, refused, bits):
    """With the command that protects it."""
    file = tmp_path / "my account"
    file.write_text("mysql://root:secret@")
    file.chmod(bits)
    error = refused(parse_dsn, f"db=@{file}")

    assert f"{file} can be used by other users of this host (mode {bits:04o})" == error.found
    assert error.next_step == f"chmod 600 '{file}'"


def test_a_file_without_an_account_is_refused_without_what_is_in_it(tmp_path, refused):
    """Also one that is not there."""
    file = tmp_path / "account"
    assert refused(parse_dsn, f"db=@{file}").found == f"{file} cannot be read: No such file or directory"
    file.write_text("secret")
    file.chmod(0o600)
    error = refused(parse_dsn, f"db=@{file}")

    assert error.found == f"{file} has no account" and "secret" not in str(error)


@pytest.mark.parametrize(
    "text", ["db", "mysql://root:secret@", "db=postgres://root:secret@", "db=mysql://@", "=mysql://a:b@"]
)
def test_a_dsn_that_is_none_is_refused_without_its_password(text):
    """An error is printed, and may be kept in a pipeline's log."""
    with pytest.raises(LabError) as caught:
        parse_dsn(text)

    assert "is not an account" in caught.value.found and "secret" not in caught.value.found


class Container:
    def __init__(self, **environment):
        self.attrs = {"Config": {"Env": [f"{name}={value}" for name, value in environment.items()]}}


def test_a_given_account_is_the_only_one():
    """The user knows better than the environment."""
    given = {"db": Account("me", "mine", "--dsn")}
    containers = {"db": Container(MYSQL_ROOT_PASSWORD="theirs")}

    assert [each.user for each in accounts_for("db", given, containers, ["db"])] == ["me"]


def test_servers_that_replicate_have_each_others_accounts():
    """A replica's environment often has none, or the one that its data were initialised with before."""
    containers = {"db": Container(MYSQL_ROOT_PASSWORD="a"), "db-replica": Container(MYSQL_ROOT_PASSWORD="b")}
    tried = [each.password for each in accounts_for("db-replica", {}, containers, ["db", "db-replica"])]

    assert tried == ["b", "a"]
