"""Do the next steps of common errors lead on, typed as they were printed?

On labs of which another one runs, and on a project before and while it is attached.
"""

import re
import shlex

import pytest
from replication_lab.world import catalogue
from replication_lab.world.docker import leftovers

from tests.lab import attaching
from tests.next_steps.printed import commands_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
NAME, OTHER = "test-next-steps", "test-next-steps-other"
# By what is wrong: the words of a command, without the lab that it names.
ERRORS = {
    "a node that there is not": ("sql", "nosuch", "-e", "SELECT 1"),
    "statements that are wrong": ("sql", "replica", "-e", "SELEKT 1"),
    "a condition without a unit": ("link", "set", "source-replica", "40"),
    "a toxic that there is not": ("link", "set", "source-replica", "wann"),
    "a disk that is not emulated": ("disk", "fail", "source", "disk1"),
    "a migration of a source": ("disk", "migrate", "source", "--to", "single"),
    "a lab that is not attached": ("detach",),
    "drills of a lab that is not attached": ("drill",),
    "the log of a node that there is not": ("logs", "nosuch"),
    "a node to start that there is not": ("start", "nosuch"),
    "a failover to the source itself": ("failover", "source"),
    "a failover to a node that there is not": ("failover", "nosuch"),
    "a node to take back that there is not": ("rejoin", "nosuch"),
    "a cluster manager that there is not": ("standby", "source"),
    "a diagnosis of a node that there is not": ("diagnose", "nosuch"),
    "a file that there is not": ("sql", "source", "--file", "nosuch.sql"),
}
# Errors while the source is stopped.
STOPPED = {
    "a statement at a stopped server": ("sql", "source", "-e", "SELECT 1"),
    "a command in a stopped container": ("exec", "source", "true"),
    "a diagnosis of a stopped server": ("diagnose", "source"),
}


# Refusals of `lab attach`, by its links and options.
REFUSED = {
    "two servers that do not replicate from each other": ("--link", "replica1:replica2"),
    "an account of a service that is no server": ("--link", "app:source", "--dsn", "app=mysql://root@"),
    "an endpoint that is a server": ("--link", "app:source", "--endpoint", "source:3306"),
    "a service that there is not": ("--link", "app:nosuch"),
}
# Errors on an attached project, without its name.
ON_ATTACHED = {
    "a file of SQL": ("sql", "source", "--file", str(catalogue.ROOT / "tests" / "files" / "dumps" / "fails.sql")),
    "a drill that would be filtered": ("drill", "--drill", "cut-link"),
    "a drill that a project cannot have": ("drill", "--drill", "disk-full"),
    "a condition without a unit": ("link", "set", "app-source", "40"),
    "a failover": ("failover", "replica1"),
    "the log of a node that there is not": ("logs", "nosuch"),
}


@pytest.fixture(scope="module")
def labs(command):
    """Start a lab, and another one beside it: a next step without a name would be refused."""
    try:
        for name, topology in ((NAME, "async"), (OTHER, "single")):
            started = command("up", topology, "--lab", name)
            assert started.returncode == 0, started.stderr
        yield
    finally:
        for name in (NAME, OTHER):
            leftovers.remove(name)


def leads_on(command, words) -> str:
    """Require an error of a command, and that each command of its next step is accepted; return what was typed."""
    refused = command(*words, **attaching.ENVIRONMENT)
    assert refused.returncode == 2 and "next: " in refused.stderr, refused.stdout + refused.stderr
    step = re.split(r"^next: ", refused.stderr, flags=re.M)[-1]
    for typed in commands_of(step):
        found = command(*shlex.split(typed)[1:], **attaching.ENVIRONMENT)
        assert found.returncode in (0, 1, 3), f"{refused.stderr}\n{typed}:\n{found.stdout}{found.stderr}"
    return step


@pytest.mark.parametrize("words", ERRORS.values(), ids=ERRORS)
def test_the_next_step_of_an_error_is_accepted(command, labs, words):
    """Also if it is no command: then nothing of it is typed."""
    assert leads_on(command, (*words, "--lab", NAME))


def test_the_next_steps_of_a_stopped_server_are_accepted(command, labs):
    """They do not start it by themselves."""
    assert command("stop", "source", "--lab", NAME).returncode == 0
    try:
        for words in STOPPED.values():
            leads_on(command, (*words, "--lab", NAME))
    finally:
        assert command("start", "source", "--lab", NAME).returncode == 0


def test_the_next_step_of_a_lab_with_a_stopped_node_starts_it(command, labs):
    """The same command is accepted then."""
    assert command("stop", "replica", "--lab", NAME).returncode == 0
    assert "start replica" in leads_on(command, ("up", "async", "--lab", NAME))
    assert command("up", "async", "--lab", NAME).returncode == 0


def test_the_name_of_a_lab_is_no_project_to_attach(command, labs):
    """The next step shows what has that name."""
    file = attaching.PROJECTS / "filtered" / "docker-compose.yml"
    leads_on(command, ("attach", "-f", str(file), "-p", NAME, "--link", "app:source", "--yes"))


def test_the_next_steps_on_a_project_are_accepted(command, started):
    """Of what `lab attach` refuses, and of what is refused while it is attached; the last one restores it."""
    attaching.build()
    name = started("filtered")
    before = attaching.settings(name)
    for words in REFUSED.values():
        leads_on(command, attaching.options("filtered", name, *words))
    attach = attaching.options("filtered", name, "--link", "app:source")
    assert command(*attach, **attaching.ENVIRONMENT).returncode in (0, 3)
    for words in ON_ATTACHED.values():
        leads_on(command, (*words, "--lab", name))
    assert "detach" in leads_on(command, attach)
    assert attaching.settings(name) == before


def test_the_next_step_of_a_lab_that_is_there_already_leads_to_a_new_one(command, labs):
    """The printed command removes it, and the first one is then accepted."""
    again = ("up", "single", "--lab", OTHER)
    refused = command(*again)
    if refused.returncode == 2:
        for typed in commands_of(re.split(r"^next: ", refused.stderr, flags=re.M)[-1]):
            assert command(*shlex.split(typed)[1:]).returncode == 0
    assert command(*again).returncode == 0
