"""Is the account of a server found where the vendors' images have it, and does no message tell its password?"""

import pytest
from replication_lab.model.errors import LabError
from replication_lab.world.docker.attached import accounts_for
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
        ({"MYSQL_ALLOW_EMPTY_PASSWORD": "no"}, []),
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
