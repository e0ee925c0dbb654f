"""Does a command that stays in a container answer each question, and is its end, or its silence, an error?"""

import os

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import conversation
from replication_lab.world.docker.conversation import Conversation

ANSWERS = "while read -r _; do n=$((n + 1)); echo first; echo $n; echo; done"


@pytest.fixture
def talk(monkeypatch, tmp_path):
    """Return a conversation with a command of bash: the engine's client is a script that runs it here."""
    client = tmp_path / "docker"
    client.write_text('#!/bin/bash\n[[ "$1 $2 $3" == "exec -i 7f3a" ]] && exec "${@:4}"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    talks = []

    def begin(script):
        talks.append(Conversation("node1", "exec", "-i", "7f3a", "bash", "-c", script))
        return talks[-1]

    yield begin
    for each in talks:
        each.close()


def test_each_question_has_its_answer(talk):
    """One command answers all of them."""
    found = talk(ANSWERS)

    assert [found.ask() for _ in range(3)] == [f"first\n{number}" for number in (1, 2, 3)]
    assert not found.has_ended


def test_a_question_may_have_words(talk):
    """On its line."""
    assert talk('while read -r line; do echo "so $line"; echo; done').ask("be it") == "so be it"


def test_a_command_that_has_ended_is_an_error_at_once_and_afterwards(talk):
    """As in a container that was killed."""
    found = talk("read -r _; echo half an answer")

    for _ in range(2):
        with pytest.raises(LabError, match="the command that tells the state of node1 has ended"):
            found.ask()


def test_a_command_that_does_not_answer_is_not_waited_for(talk, monkeypatch, tmp_path):
    """As in a container that is frozen. When it goes on, its late answer is not taken for that to a later question."""
    frozen = tmp_path / "frozen"
    os.mkfifo(frozen)
    found = talk(f"read -r _; read -r _ <{frozen}; echo late; echo; {ANSWERS}")
    with monkeypatch.context() as patched:
        patched.setattr(conversation, "ANSWER_SECONDS", 0.05)
        for _ in range(2):
            with pytest.raises(LabError, match="does not answer"):
                found.ask()
    frozen.write_text("goes on\n")

    assert (found.ask(), found.has_ended) == ("first\n1", False)


def test_the_end_of_the_conversation_ends_the_command(talk):
    """And a question after that is an error, not a wait."""
    found = talk(ANSWERS)
    found.ask()
    found.close()

    assert found.has_ended
    with pytest.raises(LabError, match="has ended"):
        found.ask()
