"""Does the command line explain itself, refuse bad input in three lines, and end with the status it promises?"""

import inspect
import io
import json
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import replication_lab
from click.testing import CliRunner
from replication_lab import cli, experiments
from replication_lab import runs as running
from replication_lab.lab import down as removal
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, revisions
from replication_lab.world.disks import array
from replication_lab.world.docker import compose_version, engine, labels, leftovers, project

from tests.fakes import troubles

DEFERRED: dict[str, Any] = cli.cli.commands
COMMANDS = sorted(DEFERRED)
# What takes long to import, each longer than the whole of `lab --help` may.
HEAVY = {"docker", "jinja2", "msgspec", "numpy", "pymysql", "requests", "rich", "scipy"}


@pytest.fixture(autouse=True)
def no_labs(monkeypatch):
    """Make a machine without labs, on which none can be started."""
    monkeypatch.setattr(project, "all_labs", dict)
    monkeypatch.setattr(project, "start", lambda *_, **__: pytest.fail("a lab was started"))


# --- help -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_by_example(command):
    """--help says what the command does and shows a line that can be typed."""
    said = CliRunner().invoke(cli.cli, [command, "--help"], prog_name="lab")

    assert said.exit_code == 0
    assert f"lab {command}" in said.output.split("Example:", 1)[1]


def test_the_commands_promised_are_there():
    """up, down, status, sql, toxic, run, report, doctor, clean."""
    promised = {"up", "down", "status", "sql", "toxic", "run", "report", "doctor", "clean"}

    assert promised <= set(COMMANDS)


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"completion"}))
def test_every_command_that_prints_data_has_json(command):
    """--json is an option of each, and of each command of a group."""
    found = DEFERRED[command].load()
    for each in getattr(found, "commands", {"": found}).values():
        assert "json_" in [parameter.name for parameter in each.params]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_options_that_it_declares(command):
    """Their values go to parameters of the same names: no option is unknown to its command, and none is left out."""
    found = DEFERRED[command].load()
    for each in getattr(found, "commands", {"": found}).values():
        taken = inspect.signature(inspect.unwrap(each.callback)).parameters
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in taken.values()):
            assert {parameter.name for parameter in each.params if parameter.expose_value} == set(taken), each.name


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says(command):
    """The short help is known without the command's module, and is the first sentence there."""
    listed = DEFERRED[command]

    assert listed.get_short_help_str(limit=1000) == listed.load().get_short_help_str(limit=1000)


def imported(*arguments) -> set[str]:
    """Return the modules that a new process has imported after `lab ARGUMENTS`, of this package and others."""
    program = f"import sys\nfrom replication_lab.cli import cli\ncli({list(arguments)}, standalone_mode=False)\n"
    show = "print('modules:', *sys.modules)"
    said = subprocess.run([sys.executable, "-c", program + show], capture_output=True, text=True, check=True).stdout
    return set(said.rpartition("modules:")[2].split())


@pytest.mark.whole
def test_help_loads_no_command():
    """`lab --help` answers at once: neither a command's module nor anything that takes long to import."""
    found = imported("--help")

    assert not found & HEAVY
    assert {name for name in found if name.startswith("replication_lab.")} == {
        "replication_lab.cli",
        "replication_lab.cli.streams",
        "replication_lab.model",
        "replication_lab.model.core",
        *(f"replication_lab.model.core.{name}" for name in ("command", "errors", "exit_code", "visible")),
        "replication_lab.world",
        "replication_lab.world.signals",
    }


@pytest.mark.whole
def test_a_command_on_labs_loads_no_fault_no_other_kind_of_replication_and_no_record():
    """They would take a fifth of the time until it begins."""
    found = imported("up", "--help")

    assert "replication_lab.lab.up" in found
    others = ("faults.kill", "replication.galera", "replication.drbd", "model.record.record", "world.journal")
    assert not found & {f"replication_lab.{name}" for name in others}


@pytest.mark.whole
def test_a_command_loads_its_own_module_alone():
    """What the test above looks for is seen where it is: in the command's own module, and in no other command's."""
    found = imported("up", "--help")

    assert {"docker", "msgspec", "rich", "replication_lab.cli.lab"} <= found
    modules = {each["module"] for each in cli.COMMANDS.values() if "module" in each}
    assert not found & {f"replication_lab.cli.{module}" for module in modules - {"lab"}}


def test_the_version_is_that_of_the_project(lab):
    """One number, in the package, where the build reads it."""
    project_file = tomllib.loads((catalogue.ROOT / "pyproject.toml").read_text())

    assert project_file["project"]["dynamic"] == ["version"]
    assert (catalogue.ROOT / project_file["tool"]["hatch"]["version"]["path"]).samefile(replication_lab.__file__)
    assert lab("--version") == (0, f"lab {replication_lab.VERSION}\n", "")


def test_an_installed_package_names_its_own_command(lab, monkeypatch, tmp_path):
    """It has no launcher: texts and errors say `lab`, and paths that look like it stay."""
    monkeypatch.setattr(cli, "LAUNCHER", tmp_path / "lab")
    _, _, err = lab("up", "semisink")
    out = io.StringIO()
    cli.streams.Output(out, installed=True).write("./lab up; /x/./lab ./lab/mine ./lab-a `./lab`")

    assert "next: lab list topologies" in err
    assert out.getvalue() == "lab up; /x/./lab ./lab/mine ./lab-a `lab`"


@pytest.mark.parametrize(
    ("module", "said"),
    [("starlette.routing", "next: pip install 'PATH-OF-CHECKOUT-OR-WHEEL[live]'"), ("nowhere", "Traceback")],
)
def test_a_missing_extra_is_named(lab, monkeypatch, module, said):
    """With the command that installs it; any other missing module is a defect, and is shown as one."""

    def missing(_command):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(cli.Deferred, "load", missing)
    status, _, err = lab("status")

    assert status == 2 and said in err


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["up", "semisink"], "did you mean semisync?"),
        (["up", "semisync", "--engine", "mysql-8"], "did you mean mysql-8.0?"),
        (["up", "semisync", "--toxic", "source-replica=wan-85"], "did you mean wan-85ms?"),
        (["up", "semisync", "--toxic", "source-repica=wan-85ms"], "did you mean source-replica?"),
        (["up", "semisync", "--toxic", "wan-85ms"], "has no equals sign"),
        (["up", "async", "--storage", "raid9"], "did you mean raid1?"),
        (["up", "async", "--storage", "raid1", "--disks", "1"], "expected: 2 to 8 disks"),
        (["up", "async", "--storage", "raid0", "--disk-size", "5"], "the size of a disk is 5 MiB"),
        (["up", "async", "--storage", "raid0", "--disk", "sata"], "did you mean sata-7200?"),
        (["up", "async", "--storage", "replika=raid0"], "did you mean replica?"),
        (["up", "async", "--storage", "raid0", "--backend", "zfs"], "unknown storage backend 'zfs'"),
        (["run", "semisync-wan"], "did you mean semisync_wan?"),
        (["run", "semisync_wan", "--engine", "mariadb,mysq"], "did you mean mysql?"),
        (["run", "semisync-wan"], "next: ./lab list experiments"),
        (["run", "semisync_wan", "--engine", "mysql-5.7"], "next: ./lab run semisync_wan --engine mariadb"),
        (["up", "semisink"], "next: ./lab list topologies"),
        (["up", "async", "--storage", "raid0", "--disk", "sata"], "next: ./lab list disks"),
        (["drill", "drbd", "--engine", "mysql-8.0"], "next: ./lab drill drbd --engine mariadb"),
        (["drill", "--drill", "kill-relay"], "next: ./lab drill chain --drill kill-relay"),
        (["drill", "--drill", "no-such-fault"], "next: ./lab list drills"),
        (["drill", "--duration", "5"], "no topology given for --drill, --duration"),
        (["drill", "--runs", "2"], "no topology given for --drill, --duration"),
        (["list", "toxic"], "did you mean toxics?"),
        (["report"], "expected: a recorded run; there is none"),
        (["toxic", "--check", "reseet"], "did you mean reset?"),
        (["link", "set", "source-replica"], "no condition given for source-replica"),
        (["report", "no-such-run"], "no record in no-such-run"),
        (["report", "--open"], "no record in latest"),
        (["env"], "no lab is running"),
        (["logs", "source"], "no lab is running"),
        (["kill"], "Missing argument 'NODE…'"),
        (["sql", "-e", "SELECT 1"], "no lab is running"),
        (["upp"], "No such command 'upp'"),
        (["up", "--nmae", "x"], "No such option"),
        (
            ["link", "set", "source-replica", "-40ms"],
            "a value that begins with a dash is read as an option; no value here is negative",
        ),
        (["report", "a", "b"], "unexpected extra argument"),
    ],
)
def test_bad_input_ends_with_status_2_and_the_way_on(lab, runs, monkeypatch, arguments, said):
    """Nothing is started, standard output stays empty, the nearest good name is suggested."""
    monkeypatch.setattr(engine, "ensure", lambda: pytest.fail("the engine was touched"))
    status, out, err = lab(*arguments)

    assert (status, out) == (2, "")
    assert said in err and "Traceback" not in err


def test_an_error_is_three_lines(lab):
    """What was found, what was expected, what to type next."""
    _, _, err = lab("toxic", "--check", "reseet")
    found, expected, next_ = err.strip().splitlines()

    assert found.startswith("error: unknown toxic 'reseet'")
    assert expected.startswith("expected: one of ") and next_.startswith("next: ./lab")


def test_square_brackets_in_an_error_are_shown_as_they_are(lab, monkeypatch):
    """Text from outside is not taken for colours."""

    def fail(*_):
        raise LabError("[red] in lab.foo [/]", "")

    monkeypatch.setattr(removal, "down", fail)

    assert "error: [red] in lab.foo [/]" in lab("down")[2]


@pytest.mark.parametrize(
    ("stop", "said", "expected"),
    [
        (KeyboardInterrupt("SIGTERM"), "stopped (SIGTERM)", 143),
        (KeyboardInterrupt("SIGHUP"), "stopped (SIGHUP)", 129),
        (KeyboardInterrupt(), "stopped (SIGINT)", 130),
    ],
)
def test_an_interruption_is_said_in_one_line(lab, monkeypatch, stop, said, expected):
    """No traceback; the status is the one by which a shell reports the signal."""

    def interrupted(*_):
        raise stop

    monkeypatch.setattr(removal, "down", interrupted)
    status, _, err = lab("down")

    assert status == expected and said in err and len(err.strip().splitlines()) == 1


def test_a_defect_of_the_harness_has_a_status_of_its_own(lab, monkeypatch):
    """Status 3 with the traceback: never 1, which says that a verdict changed."""
    monkeypatch.setattr(removal, "down", lambda *_: 1 / 0)
    status, _, err = lab("down")

    assert status == 2
    assert "ZeroDivisionError" in err and "Traceback" in err


# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def world(fake_world, runs, brief, undrawn, monkeypatch):
    """Run `lab run` in a fake world, in the smallest plan."""
    from dataclasses import replace

    found = fake_world()
    short = replace(experiments.load("semisync_wan"), presets={"quick": brief, "full": brief})
    monkeypatch.setattr(running, "World", lambda _load: found)
    monkeypatch.setattr(experiments, "load", lambda _name, _rtt="": short)
    return found


@pytest.mark.parametrize("status", [0, 1, 3])
def test_the_status_of_a_run_is_its_verdict(lab, world, monkeypatch, status):
    """0 as expected, 1 changed, 3 unknown, and the same from `lab report`."""
    from msgspec.structs import replace

    real = running.summarise
    monkeypatch.setattr(running, "write_report", lambda *_: [])
    monkeypatch.setattr(running, "summarise", lambda *parts: replace(real(*parts), exit_code=status))

    assert lab("run", "semisync_wan")[0] == status
    assert lab("report")[0] == status


def test_a_run_prints_its_summary_as_data(lab, world):
    """Standard output is one JSON document, the same as summary.json; everything else goes to standard error."""
    status, out, err = lab("run", "semisync_wan", "--json")
    summary = json.loads(out)

    assert summary["exit_code"] == status
    assert summary["experiment"] == "semisync_wan" and summary["preset"] == "quick"
    said = [line.partition(": ")[2] for line in err.splitlines() if line.startswith("mariadb: ")]
    assert said == ["semisync starts", "comparing the copies of semisync"]
    assert "record and report:" in err and "round 1 of" in err
    assert json.loads(lab("report", "--json")[1]) == summary


@pytest.mark.parametrize(
    ("asked", "engines"),
    [
        ([], ["mariadb"]),
        (["--engine", "mysql-5.5,mysql-8.0"], ["mysql-5.5", "mysql-8.0"]),
        (["--engine", "all"], ["mariadb", "mariadb-10.11", "mysql-8.0", "mysql-5.6", "mysql-5.5", "mysql"]),
    ],
)
def test_a_run_takes_the_usual_engines_those_named_or_all_that_can_be_had(lab, world, asked, engines):
    """Percona's is not among all of them: its image is the vendor's."""
    assert json.loads(lab("run", "semisync_wan", "--json", *asked)[1])["engines"] == engines


def test_a_crashed_run_ends_with_status_2(lab, world):
    """The report is written, and the status tells a crash from a verdict."""
    world.meanwhile = troubles.crash
    status, _, err = lab("run", "semisync_wan")

    assert status == 2 and "a defect of the harness" in err
    assert json.loads(lab("report", "--json")[1])["verdict"] == "CRASHED"


def test_an_interrupted_run_is_not_green(lab, world):
    """Status 3, with what there is, and the report."""
    world.meanwhile = troubles.interrupt
    status, out, _ = lab("run", "semisync_wan")

    assert status == 3 and "interrupted" in out
    assert world.taken_down == ["mariadb"]


def test_the_report_of_a_run_is_opened_on_a_desktop_and_printed_everywhere(lab, world, monkeypatch):
    """Into a pipe the path alone; a run without a report says how to write one."""
    opened = []
    monkeypatch.setattr("click.launch", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    lab("run", "semisync_wan")
    page = (catalogue.RUNS / "latest").resolve() / "report.html"

    assert lab("report", "--open")[:2] == (0, f"{page}\n") and opened == []
    assert json.loads(lab("report", "latest", "--open", "--json")[1]) == {"report": str(page)}
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert lab("report", "--open")[1] == f"{page}\n" and opened == [str(page)]
    page.unlink()
    assert "next: ./lab report latest" in lab("report", "--open")[2]


# --- data -------------------------------------------------------------------------------------------------------------


def test_toxics_are_listed_as_text_and_as_data(lab):
    """Each name with what it is about, as `lab list toxics` does."""
    found = json.loads(lab("toxic", "--json")[1])

    assert [row["toxic"] for row in found] == catalogue.toxics()
    assert "wan-85ms" in lab("toxic")[1]


def test_no_lab_is_no_error(lab, monkeypatch):
    """`status` and `down` say so and end well."""
    monkeypatch.setattr(engine, "client", lambda: None)
    monkeypatch.setattr(leftovers, "sweep", lambda _tell: [])
    monkeypatch.setattr(project, "others", dict)
    monkeypatch.setattr(labels, "owners", dict)
    monkeypatch.setattr(array, "sweep", lambda kept: [])
    monkeypatch.setattr(removal, "removable", lambda *_: [])
    monkeypatch.setattr(labels, "compose_files", list)
    monkeypatch.setattr(revisions, "unused", lambda _in_use: [])

    assert json.loads(lab("status", "--json")[1]) == []
    assert "./lab up" in lab("status")[1]
    assert lab("down")[0] == 0 and json.loads(lab("down", "--json")[1]) == {"down": []}
    assert json.loads(lab("clean", "--json")[1]) == {"removed": []}


def test_a_machine_without_an_engine_is_examined_all_the_same(lab, monkeypatch):
    """`doctor` shows what can be seen, and ends with status 1 for what is missing."""

    def nobody():
        raise LabError("the Docker engine does not answer", "a running engine", "./lab up")

    monkeypatch.setattr(engine, "client", nobody)
    monkeypatch.setattr(compose_version, "version", nobody)
    status, out, _ = lab("doctor", "--json")
    findings = {finding["what"]: finding for finding in json.loads(out)}

    assert status == 1
    assert findings["machine"]["ok"] and not findings["docker engine"]["ok"]
    assert findings["docker engine"]["next_step"] == "./lab up"
