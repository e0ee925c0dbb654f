"""A user's own load command: are its lines read strictly, and is what it does not do no measurement?"""

import pytest
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab.model.core.errors import LabError
from replication_lab.model.question.question import Question
from replication_lab.workloads.own_command import OwnCommand, even, lasted, lines_of

from tests.fakes.lab import FakeLab

COMMAND = "python3 /load.py"


def question(vary=None, **others) -> Question:
    return Question(
        **{"topologies": ["semisync"], "vary": vary or {"clients": ["1", "4"]}, "load_command": COMMAND}
        | {"rounds": 3, "margin": 1.0, "seconds": 1}
        | others
    )


# --- what is refused before anything starts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"load_command": None, "load_image": "shop:1"}, "--load-image shop:1 without --load-command"),
        ({"load_command": ""}, "--load-command is empty"),
        ({"load_command": "  \n"}, "--load-command is empty"),
        ({"workload": "oltp_insert"}, "both --workload oltp_insert and --load-command are given"),
    ],
)
def test_a_command_that_cannot_be_the_load_is_refused(asked, said, refused):
    """One message."""
    assert said in refused(lambda: question(**asked)).found


@pytest.mark.parametrize("workload", ["inserts", "oltp_insert"])
def test_the_command_line_names_one_load(workload):
    """Also the default load, if it is typed."""
    typed = ("--vary", "clients=1,2", "--workload", workload, "--load-command", COMMAND)

    said = CliRunner().invoke(cli.cli, ("ask", "semisync", *typed), prog_name="lab")

    assert isinstance(said.exception, LabError) and "both name a load" in said.exception.found


# --- its lines --------------------------------------------------------------------------------------------------------

BAD_LINES = [
    "connected",
    "",
    "1 2 write",
    "1 2 write ok 3",
    "1 2 update ok",
    "1 2 write failed",
    "1 -2 write ok",
    "1.5 2 write ok",
    "1  2 write ok",
    " 1 2 write ok",
    "1\t2\twrite\tok",
    "١ 2 write ok",
    "1" * 19 + " 2 write ok",
]


@pytest.mark.parametrize("text", BAD_LINES)
def test_a_line_that_does_not_fit_is_told(text, refused):
    """With its number."""
    error = refused(lines_of, f"10 20 write ok\n{text}\n30 40 read ok\n")

    assert error.found.startswith(f"line 2 of the load command is {text[:20]!r}"[:40])


@pytest.mark.parametrize("text", ["", "1 2 write error\n"])
def test_a_load_without_a_transaction_is_none(text, refused):
    """Nothing, or only failures."""
    assert "none of them ok" in refused(lines_of, text).found


def test_a_load_shorter_than_its_time_is_not_proved():
    """It did something else than it was asked for."""
    (line,) = lines_of("0 700000 write ok")

    assert not lasted([line], 1).ok and lasted(lines_of("5 800000 write ok"), 1).ok


def test_the_starts_at_a_rate_are_even_whatever_the_answers_were():
    """Actual starts differ from the intended ones as soon as a stall delays one."""
    intended = "".join(f"{number * 5000} {1000 if number < 90 else 1000000} write ok\n" for number in range(200))
    actual = "".join(f"{number * 5000 + (1000000 if number > 90 else 0)} 1000 write ok\n" for number in range(200))

    assert even(lines_of(intended), 200, 4).ok
    assert "at an even 200/s (LAB_RATE)" in even(lines_of(actual), 200, 4).doubt


# --- in a model of a lab ----------------------------------------------------------------------------------------------


def measured(record):
    return [(event.case, event.figures) for event in record.measurements]


def test_a_command_is_told_what_it_needs_and_its_commits_are_proved(ran, monkeypatch):
    """Its writes that were answered are commits, and each waited for a round trip."""
    told, honest = [], FakeLab.own_command
    monkeypatch.setattr(FakeLab, "own_command", lambda lab, known: told.append(dict(known)) or honest(lab, known))
    asked = question(settings={"rtt": "40ms"}, load_image="shop:1")
    summary, record, _ = ran(experiments.asked(asked), preset="ask")

    tried, first = told[0], told[1]
    assert (tried["LAB_CLIENTS"], tried["LAB_SECONDS"], tried["LAB_RATE"]) == ("1", "1", "")
    assert {"LAB_HOST": "source", "LAB_PORT": "3306", "LAB_USER": "lab", "LAB_DATABASE": "lab"}.items() <= first.items()
    assert first["LAB_PASSWORD"] and first["LAB_SEED"].isdecimal()
    assert summary.verdict == "AS_EXPECTED" and summary.counts == "transaction"
    assert [m.reasons_to_doubt for m in record.measurements if m.reasons_to_doubt] == []
    assert any("sooner than a round trip" in proof.what for m in record.measurements for proof in m.proofs)
    assert all(
        0 < figures["commits"] < figures["attempts"] and not figures["errors"] for _, figures in measured(record)
    )
    assert f"under the load `{COMMAND}`" in summary.question
    assert experiments.of(record).asked == asked


def test_a_command_with_a_rate_is_measured_from_the_intended_times(ran):
    """The starts are the intended ones; the fastest commit is then unknown."""
    asked = question(settings={"rtt": "10ms", "rate": "100/s"}, vary={"clients": ["4", "8"]})
    summary, record, _ = ran(experiments.asked(asked), preset="ask")

    assert summary.verdict == "AS_EXPECTED"
    assert all(figures["rate_achieved"] == 100 for _, figures in measured(record))
    assert not any("sooner than a round trip" in proof.what for m in record.measurements for proof in m.proofs)


def printing(monkeypatch, text):
    monkeypatch.setattr(FakeLab, "own_command", lambda lab, known: text)


def test_a_command_is_tried_before_anything_is_measured(ran, monkeypatch, refused):
    """The sabotage: it prints a greeting."""
    printing(monkeypatch, "hello\n1 2 write ok\n")

    assert refused(ran, experiments.asked(question()), preset="ask").found == "line 1 of the load command is 'hello'"


def test_a_command_that_ignores_the_rate_is_refused(ran, monkeypatch, refused):
    """As many as it can, one after another."""
    printing(monkeypatch, "".join(f"{number * 1000} 1000 write ok\n" for number in range(1000)))

    error = refused(ran, experiments.asked(question(settings={"rate": "200/s"})), preset="ask")

    assert error.found.startswith("the load command does not keep a rate: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2 write ok\nbye\n", "line 2 of the load command is 'bye'"),
        ("1 2 read ok\n", "ran for the requested time (LAB_SECONDS)"),
    ],
)
def test_what_goes_wrong_in_a_load_is_unknown_with_the_line(ran, monkeypatch, text, said):
    """The sabotage: all is well when it is tried."""
    honest, loads = FakeLab.own_command, []
    monkeypatch.setattr(
        FakeLab,
        "own_command",
        lambda lab, known: honest(lab, known) if not loads.append(1) and len(loads) == 1 else text,
    )
    summary, _, _ = ran(experiments.asked(question()), preset="ask")

    assert summary.verdict == "UNKNOWN" and said in summary.claims[0].reason


def test_commits_that_a_command_made_up_are_not_acknowledged(ran, monkeypatch):
    """The sabotage: it prints writes that no server has seen."""
    printing(monkeypatch, "".join(f"{number * 10000} 9000 write ok\n" for number in range(100)))
    summary, _, _ = ran(experiments.asked(question()), preset="ask")

    assert summary.verdict == "UNKNOWN" and "semi-sync acknowledged every commit" in summary.claims[0].reason


# --- errors and lag ---------------------------------------------------------------------------------------------------


def failing(every):
    """Return the lines of a correct command, in which one of `every` transactions failed."""
    honest = FakeLab.own_command

    def lines(lab, known):
        found = honest(lab, known).splitlines()
        return "".join(
            f"{line.removesuffix('ok')}{'error' if every and number % every == 1 else 'ok'}\n"
            for number, line in enumerate(found)
        )

    return lines


@pytest.mark.parametrize(
    ("every", "bound", "verdict"),
    [(10, "0.2", "HOLDS"), (10, "0.05", "REFUTED"), (0, "0.05", "HOLDS"), (0, "0", "UNKNOWN")],
)
def test_errors_are_the_share_of_attempts_that_failed(ran, monkeypatch, every, bound, verdict):
    """None seen leaves room for a few, so that zero is never proved."""
    monkeypatch.setattr(FakeLab, "own_command", failing(every))
    asked = question(claims=[f"errors[clients=4] <= {bound}"])
    summary, _, _ = ran(experiments.asked(asked), preset="ask")

    assert next(row for row in summary.claims if row.id == "claim-1.1").verdict == verdict


def test_lost_transactions_of_a_script_are_errors(refused):
    """sysbench begins them again."""
    from replication_lab.workloads.inserts import parse

    found = parse("client 0.0 1.0 500 500 500\nlost 1\n")

    assert (found.figures["attempts"], found.figures["errors"], found.commits) == (4, 0.25, 3)
    assert (
        "divides by the number of errors"
        in refused(lambda: experiments.asked(question(claims=["errors[clients=4] / errors[clients=1] <= 2"]))).found
    )


def test_the_lag_is_timed_after_each_load_if_a_claim_asks_for_it(ran):
    """Until each replica has applied what its source has."""
    summary, record, _ = ran(experiments.asked(question(claims=["lag[clients=4] <= 5"])), preset="ask")
    without, _, _ = ran(experiments.asked(question()), preset="ask")

    assert all(figures["lag_s"] >= 0 for _, figures in measured(record))
    assert "lag_s" not in without.cases[0].figures
    assert next(row for row in summary.claims if row.id == "claim-1.1").unit == "s"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"topologies": ["galera"]}, "galera has galera replication, in which no replica has a lag"),
        ({"settings": {"replication": "none"}}, "with replication=none there is no replica"),
        ({"topologies": ["single"]}, "in which no replica has a lag"),
    ],
)
def test_a_lag_that_cannot_be_is_refused(asked, said, refused):
    """Before anything starts."""
    assert said in refused(lambda: experiments.asked(question(claims=["lag[clients=4] <= 5"], **asked))).found


def test_the_default_image_is_that_of_the_load():
    """A command needs no image if it uses its tools."""
    (first, _) = experiments.asked(question()).cases
    load = experiments.asked(question()).workload(first, experiments.asked(question()).preset("ask"))

    assert isinstance(load, OwnCommand) and load.image == "replication-lab/load"
