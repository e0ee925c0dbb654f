"""The command line: its commands, each loaded when it is used, and its error messages.

`lab --help` imports click and this file. A command's module imports Docker, SQL and statistics, so a command is known
here by its line in COMMANDS until it is used.
"""

import errno
import gc
import importlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from replication_lab import VERSION
from replication_lab.cli import streams
from replication_lab.model.core.command import STARTING_LABS
from replication_lab.model.core.errors import LabError
from replication_lab.world import signals

# The checkout's launcher. An installed package has the command `lab` instead, which texts then name.
LAUNCHER = Path(__file__).parents[3] / "lab"
# Packages of an extra, by the name that is imported.
EXTRAS = {"starlette": "live", "uvicorn": "live"}
FAILED = 3  # 0, 1 and 2 are verdicts
click.UsageError.exit_code = FAILED

# The modules of this package, the commands of each, and the first sentence of a command's help.
COMMANDS = {
    "lab": {
        "up": "Start a topology, verify it, and print connection details.",
        "down": "Stop a lab and delete its data; --lab is optional if only one lab of this checkout is running.",
        "status": "Show the running labs, each as a tree: nodes, roles, links, toxics, replication.",
        "env": "Print how to connect to a lab as assignments for the shell.",
        "toxic": "List toxics, or replace the toxics of a LINK; CONDITION none removes them.",
        "doctor": "Check prerequisites and leftovers on this host and suggest fixes.",
        "clean": "Remove this checkout's labs that no running command uses, and the leftovers of killed commands.",
        "completion": "Print the completion script for a shell.",
    },
    "images": {
        "images": "Build the lab's images, and keep them for other machines: build, save, load, key.",
    },
    "attach": {
        "attach": "Put Toxiproxy between services of a running Compose project that the lab did not write.",
        "detach": "Restore an attached project: recreate its consumers without the lab, and remove what the lab added.",
    },
    "node": {
        "sql": "Open a client on a node as root, or run statements or a file of SQL there.",
        "logs": "Print the log of a node's container.",
        "exec": "Run a command in a node's container, or in its virtual machine.",
        "stop": "Stop nodes with SIGTERM, and verify that they exited with status 0.",
        "kill": "Kill nodes with SIGKILL at the same moment, and verify that they were killed.",
        "pause": "Freeze nodes, and verify that they do not answer; connections stay open.",
        "start": "Start nodes on their old data, or resume paused ones, and verify that they serve clients.",
    },
    "live": {
        "live": "Show a lab on a page where links and nodes can be changed while clients write.",
        "watch": "Print the state of a lab once a second, show it on a screen, or serve it for Prometheus.",
    },
    "listing": {
        "list": "List topologies, experiments, drills, toxics, workloads, disks, engines and runs.",
    },
    "disk": {
        "disk": "Manage the disks under a node: list, limit, check, fail, corrupt, heal, replace, migrate.",
        "diagnose": "Name the bottleneck of a node: lock, network, CPU, fsync latency, disk, applier or none.",
    },
    "failover": {
        "failover": "Let NODE accept writes in place of the source, primary or machine that did.",
        "rejoin": "Take NODE back after another node took over, such as a former source; list its errant transactions.",
        "standby": "Take a machine with a replicated disk out of service; its peer takes over and writes to its own "
        "disk only.",
        "online": "Take a machine back into service after a standby or a disk failure, and wait until both disks are "
        "in sync.",
    },
    "ask": {
        "ask": "Measure what settings or topologies change, and print each effect with its 95 % interval.",
    },
    "experiment": {
        "run": "Run an experiment and judge its claims.",
    },
    "record": {
        "report": "Judge a recorded run again, without Docker, and write, print or open its report.",
    },
    "compare": {
        "compare": "Compare two runs of one experiment or question: each figure's ratio with its 95 % interval, "
        "and the verdicts.",
    },
    "history": {
        "history": "Show the runs under runs/ over time, and where a figure's level changed.",
    },
    "drill": {
        "drill": "Inject faults into a lab under load, recover it, and report errors, downtime, data loss.",
    },
}

# Commands that change a running lab and do not undo it when they are interrupted.
CHANGING = {
    *("stop", "kill", "pause", "start", "toxic"),
    *("failover", "rejoin", "standby", "online", "disk", "down", "clean"),
}

# The headings of `lab --help`, each with the modules whose commands it lists.
SECTIONS = {
    "Labs": ("lab", "images", "listing"),
    "Live": ("live",),
    "Your own Compose project": ("attach",),
    "Nodes": ("node",),
    "Disks": ("disk",),
    "Failover and clusters": ("failover",),
    "Experiments and drills": ("ask", "experiment", "drill", "record", "compare", "history"),
}


class Deferred(click.Command):
    """A command whose module is imported only when it is used; its name and short help are known before."""

    # The name of the command that runs.
    used = ""

    def __init__(self, name: str, module: str, says: str) -> None:
        super().__init__(name, help=says)
        self._command, self._module = name, module

    def load(self) -> click.Command:
        """Import the command itself; its function may have another name, since `list` is Python's own."""
        found = vars(importlib.import_module(f"{__name__}.{self._module}")).values()
        return next(each for each in found if isinstance(each, click.Command) and each.name == self._command)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        """Hand over to the command itself: click continues with the command that its context names."""
        if self._command in STARTING_LABS:
            from replication_lab.world.docker import compose_version

            # Its answer comes while the command is imported.
            compose_version.ask()
        Deferred.used = self._command
        command = self.load()
        try:
            return command.make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            # An option without its value does not know its command, whose help is the way on.
            error.ctx = error.ctx or click.Context(command, parent, info_name)
            raise


class Sections(click.Group):
    """A group whose help lists its commands under headings."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command; also one of an earlier release, which only says what replaced it and is not listed."""
        if found := super().get_command(context, name):
            return found
        from replication_lab.cli import renamed

        return renamed.command(name)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section, in the order of COMMANDS; all sections have the same column."""
        width = max(map(len, self.commands))
        for heading, modules in SECTIONS.items():
            with formatter.section(heading):
                found = [(name, says) for module in modules for name, says in COMMANDS[module].items()]
                formatter.write_dl([(name.ljust(width), says) for name, says in found])


@click.group(
    cls=Sections,
    commands=[Deferred(name, module, says) for module, found in COMMANDS.items() for name, says in found.items()],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, message="lab %(version)s", help="Print the version and exit.")
def cli() -> None:
    """What happens to my writes if …? Real servers, real faults, verdicts that can be trusted.

    \b
    Start here:  lab up            a source and a semi-synchronous replica 85 ms apart
                 lab status        the running lab, as a tree
                 lab list          the topologies, experiments, drills and so on
                 lab run semisync_wan
    """  # noqa: D301, D401 - click needs the \b itself; it is the heading of --help
    from replication_lab.world import lab_files

    if lab_files.views():
        # Only then: it imports Docker and SQL.
        from replication_lab.cli.console import tell
        from replication_lab.lab import killed_views

        killed_views.restore(tell)


def main(command: click.Command = cli, name: str = "lab") -> None:
    """Run a command and exit: errors are three lines and status 3, defects a traceback; signals clean up first."""
    # What a command imports stays. To look for garbage in it, as often as by default, takes 40 ms.
    gc.set_threshold(50_000)
    signals.handle()
    with streams.wrapped(installed=not LAUNCHER.is_file()):
        try:
            status = _status(command, name)
            sys.stdout.flush()
        except streams.Unwritable as error:
            status = _unwritten(error)
    # Python would look for garbage once more in all that was imported before it ends, which takes 0.2 s.
    gc.freeze()
    sys.exit(status)


def _status(command: click.Command, name: str) -> Any:
    """Run a command, print its error if it has one, and return its exit status."""
    try:
        _refuse_deleted_folder()
        command(prog_name=name, standalone_mode=False)
        return 0
    except SystemExit as end:
        return end.code
    except streams.Unwritable:
        raise
    except click.UsageError as error:
        _complain(_with_the_way_on(error))
    except click.ClickException as error:
        error.show()
    except LabError as error:
        _complain(error)
    except (KeyboardInterrupt, click.Abort) as stop:
        return _say_stopped(stop)
    except Exception as error:
        if signals.interruption_within(error):
            # An interruption may surface as another error, such as of a library that was closing a connection.
            return _say_stopped(error)
        if told := _explained(error):
            _complain(told)
        else:
            traceback.print_exc()
    return FAILED


def _refuse_deleted_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise LabError("the current folder was deleted", "a folder that exists", "cd, then the same command") from None


def _explained(error: Exception) -> LabError | None:
    """Return the error for a missing extra, a name that is too long or an engine that failed; None for a defect."""
    if extra := _missing_extra(error):
        return _without(extra)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        from replication_lab.world import files

        return files.too_long(error.filename)
    # Import Docker's library only if the error is one of Docker's, because the import is slow.
    client = sys.modules.get("replication_lab.world.docker.client")
    return client.explained(error) if client else None


def _unwritten(error: streams.Unwritable) -> int:
    """Return the status of a command whose output could not be written: that of SIGPIPE if it had no reader."""
    if error.is_unread:
        return signals.exit_status("SIGPIPE")
    _complain(LabError(f"standard output cannot be written: {error.reason}", "writable output"))
    return FAILED


def _say_stopped(error: BaseException) -> int:
    """Print what an interruption stopped, and what was removed if anything was; return its exit status."""
    from replication_lab.cli.console import tell

    # click wraps an interruption; the signal's name is in the wrapped exception.
    stop = signals.interruption_within(error) or KeyboardInterrupt("SIGINT")
    signals.forget()
    failed = [] if isinstance(error, (KeyboardInterrupt, click.Abort)) else [f"meanwhile this failed: {error!r}"]
    tell("; ".join([f"stopped ({str(stop) or 'SIGINT'})", *_left_by(stop), *failed]))
    return signals.exit_status(str(stop) or "SIGINT")


def _left_by(stop: KeyboardInterrupt) -> list[str]:
    said = [stop.said] if isinstance(stop, signals.Stopped) else []
    said += [f"{name}, which this command had started, was removed" for name in signals.REMOVED]
    if not said and Deferred.used in CHANGING:
        said = ["it may have acted in part; ./lab status shows the state now"]
    return said


def _missing_extra(error: Exception) -> str:
    """Return the extra that has the missing module; an empty string for any other error."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    return EXTRAS.get(missing.partition(".")[0], "")


def _without(extra: str) -> LabError:
    return LabError(
        f"this needs the extra [{extra}], which is not installed",
        "the packages of this extra in the lab's environment",
        f"pip install 'replication-lab[{extra}]'",
    )


def _with_the_way_on(error: click.UsageError) -> LabError:
    """Return the error of an option or argument that click refused, with how the command is used."""
    found = error.format_message().removesuffix(".")
    if isinstance(error, click.NoSuchOption) and error.option_name.lstrip("-").isdigit():
        found = "a value that begins with a dash is read as an option; no value here is negative"
    if error.ctx is None:
        return LabError(found, "", "./lab --help")
    usage = " ".join(error.ctx.get_usage().removeprefix("Usage: ").split())
    return LabError(found, usage, f"./{error.ctx.command_path} --help")


def _complain(error: Exception) -> None:
    # Colours take longer to load than the help takes to print.
    from replication_lab.cli.console import complain

    complain(error)
