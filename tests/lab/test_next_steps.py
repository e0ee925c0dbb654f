"""Do the next steps of common errors lead on, typed as they were printed, on labs of which another one runs?"""

import re
import shlex

import pytest
from replication_lab.world.docker import leftovers

from tests.next_steps.printed import commands_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
NAME, OTHER = "test-next-steps", "test-next-steps-other"
# By what is wrong: the words of a command, without the lab that it names.
ERRORS = {
    "a node that there is not": ("sql", "nosuch", "-e", "SELECT 1"),
    "statements that are wrong": ("sql", "replica", "-e", "SELEKT 1"),
    "a condition without a unit": ("toxic", "source-replica", "40"),
    "a toxic that there is not": ("toxic", "source-replica", "wann"),
    "a disk that is not emulated": ("disk", "fail", "source", "disk1"),
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
    refused = command(*words, "--lab", NAME)
    assert refused.returncode == 2 and "next: " in refused.stderr, refused.stdout + refused.stderr
    step = re.split(r"^next: ", refused.stderr, flags=re.M)[-1]
    for typed in commands_of(step):
        found = command(*shlex.split(typed)[1:])
        assert found.returncode in (0, 1, 3), f"{refused.stderr}\n{typed}:\n{found.stdout}{found.stderr}"
    return step


@pytest.mark.parametrize("words", ERRORS.values(), ids=ERRORS)
def test_the_next_step_of_an_error_is_accepted(command, labs, words):
    """Also if it is no command: then nothing of it is typed."""
    assert leads_on(command, words)


def test_the_next_steps_of_a_stopped_server_are_accepted(command, labs):
    """They do not start it by themselves."""
    assert command("stop", "source", "--lab", NAME).returncode == 0
    try:
        for words in STOPPED.values():
            leads_on(command, words)
    finally:
        assert command("start", "source", "--lab", NAME).returncode == 0


def test_the_next_step_of_a_lab_that_is_there_already_leads_to_a_new_one(command, labs):
    """The printed command removes it, and the first one is then accepted."""
    again = ("up", "single", "--lab", OTHER)
    refused = command(*again)
    if refused.returncode == 2:
        for typed in commands_of(re.split(r"^next: ", refused.stderr, flags=re.M)[-1]):
            assert command(*shlex.split(typed)[1:]).returncode == 0
    assert command(*again).returncode == 0
