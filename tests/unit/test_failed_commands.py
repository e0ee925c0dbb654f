"""Does the error of a command that failed in a container have its last lines, and never a password?"""

from types import SimpleNamespace

import pytest
from replication_lab.world.docker.containers import LabContainers
from replication_lab.world.docker.service import Service, without_passwords

SECRET = "s3cret-of-the-lab"


def load(said: str, **environment: str) -> Service:
    """Return the load container, in which every command fails with this output."""
    entries = [f"{name}={value}" for name, value in environment.items()]
    answer = SimpleNamespace(exit_code=1, output=(b"", said.encode()))
    container = SimpleNamespace(attrs={"Config": {"Env": entries}}, exec_run=lambda *_, **__: answer)
    return Service(LabContainers("lab-async", lambda _: {"load": [container]}), "load")


@pytest.mark.parametrize(
    ("environment", "given"),
    [
        ({"MYSQL_PWD": SECRET}, {}),
        ({}, {"LAB_PASSWORD": SECRET}),
        ({"MYSQL_ROOT_PASSWORD": SECRET}, {"MYSQL_PWD": SECRET}),
    ],
)
def test_a_script_that_prints_the_password_and_fails_does_not_show_it(refused, environment, given):
    """Whether the container has it, or the command was given it."""
    service = load(f"connecting as lab:{SECRET}@source\nFATAL: no such table", **environment)
    error = refused(lambda: service.run("sysbench", "run", environment=given))

    assert SECRET not in str(error) and "lab:***@source" in error.found and "FATAL: no such table" in error.found


def test_other_values_are_shown():
    """An empty password is in every text, and the name of a file is no secret."""
    environment = {"MYSQL_PWD": "", "MYSQL_ROOT_PASSWORD_FILE": "/run/secrets/root", "PATH": "/bin"}

    assert without_passwords("see /run/secrets/root in /bin", environment) == "see /run/secrets/root in /bin"


def test_a_password_within_another_one_leaves_no_rest():
    """The longer one is replaced first."""
    assert without_passwords("abcdef abc", {"A_PASSWORD": "abc", "B_PWD": "abcdef"}) == "*** ***"
