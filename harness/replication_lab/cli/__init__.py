"""The command line: its commands, each loaded when it is used, and its error messages.

`lab --help` imports click and this file. A command's module imports Docker, SQL and statistics, so a command is known
here by its entry in commands.toml until it is used.
"""

import errno
import gc
import importlib
import os
import sys
import tomllib
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from replication_lab import VERSION
from replication_lab.cli import streams
from replication_lab.model.core.command import STARTING_LABS
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.world import signals

# The checkout's launcher. An installed package has the command `lab` instead, which texts then name.
LAUNCHER = Path(__file__).parents[3] / "lab"
# Packages of an extra, by the name that is imported.
EXTRAS = {"starlette": "live", "uvicorn": "live"}

# The texts of the command line, by the headings of `lab --help` and the words of a command.
TEXTS = tomllib.loads((Path(__file__).parent / "commands.toml").read_text())
# The texts of options that several commands share, by the options' names.
SHARED = TEXTS.pop("shared")
# What other tools have by another name, which `lab --help` does not list: what to type instead.
RENAMED = TEXTS.pop("renamed")
COMMANDS = {words: found for commands in TEXTS.values() for words, found in commands.items()}

Decorator = Callable[[Callable[..., Any]], click.Command]


def help_of(words: str) -> str:
    return COMMANDS[words]["help"]


def command(words: str, group: click.Group | None = None, **settings: Any) -> Decorator:
    """Return the decorator of a command, in a group or alone; its help and that of its options is in commands.toml."""

    def decorated(act: Callable[..., Any]) -> click.Command:
        made = click.command(words.rpartition(" ")[2], help=help_of(words), **settings)(act)
        made.params += [_told(-1, "--quiet", "-q"), _told(1, "--verbose", "-v")]
        texts = {**SHARED, **COMMANDS[words].get("options", {})}
        for option in (each for each in made.params if isinstance(each, click.Option)):
            option.help = option.help or texts.get(max(option.opts, key=len))
        if group:
            group.add_command(made)
        return made

    return decorated


def _told(level: int, *names: str) -> click.Option:
    """Return the option that sets how much a command tells while it runs."""

    def tell(_context: click.Context, _option: click.Parameter, is_set: bool) -> None:
        if is_set:
            importlib.import_module(f"{__name__}.console").told["level"] = level

    return click.Option(names, is_flag=True, expose_value=False, is_eager=True, callback=tell)


class Deferred(click.Command):
    """A command whose module is imported only when it is used; its name and short help are known before."""

    # The name of the command that runs.
    used = ""

    def __init__(self, name: str, module: str, help_: str) -> None:
        super().__init__(name, help=help_)
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
        """Return a command; also one of other tools, which only says what it is called here and is not listed."""
        return super().get_command(context, name) or (_renamed(name) if name in RENAMED else None)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of each section with the first sentence of their help; all have the same column."""
        width = max(map(len, self.commands))
        for heading, found in TEXTS.items():
            with formatter.section(heading):
                listed = [self.commands[name] for name in found if name in self.commands]
                formatter.write_dl([(str(each.name).ljust(width), each.get_short_help_str(1000)) for each in listed])


def _renamed(name: str) -> click.Command:
    """Return the command that tells the name here of another tool's command, and exits with a status of no success."""
    now = RENAMED[name]

    def tell() -> None:
        _complain(LabError(f"there is no `lab {name}`", f"`lab {now}` in place of `lab {name}`", f"./lab {now}"))
        sys.exit(ExitCode.USAGE)

    whatever = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, expose_value=False)
    anything = {"ignore_unknown_options": True, "help_option_names": []}
    return click.Command(name, context_settings=anything, params=[whatever], callback=tell)


@click.group(
    cls=Sections,
    commands=[Deferred(name, each["module"], each["help"]) for name, each in COMMANDS.items() if "module" in each],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, message="lab %(version)s", help="Print the version and exit.")
def cli() -> None:
    """What happens to my writes if …? Real servers, real faults, verdicts that can be trusted.

    \b
    Start here:  lab up            a source and a semi-synchronous replica 85 ms apart
                 lab status        the running lab, as a tree
                 lab ask semisync --vary sync_binlog=0,1
                 lab drill semisync
                 lab list          the topologies, experiments, drills and so on
    """  # noqa: D301, D401 - click needs the \b itself; it is the heading of --help
    from replication_lab.world import lab_files

    if lab_files.views():
        # Only then: it imports Docker and SQL.
        from replication_lab.cli.console import tell
        from replication_lab.lab import killed_views

        killed_views.restore(tell)


def main(command: click.Command = cli, name: str = "lab") -> None:
    """Run a command and exit: errors are three lines, defects a traceback; signals clean up first."""
    # What a command imports stays. To look for garbage in it, as often as by default, takes 40 ms.
    gc.set_threshold(50_000)
    signals.handle()
    with streams.wrapped(installed=not LAUNCHER.is_file()):
        try:
            status = _status(command, name)
            sys.stdout.flush()
        except streams.Unwritable as error:
            # That of SIGPIPE if it had no reader.
            status = signals.exit_status("SIGPIPE") if error.is_unread else ExitCode.USAGE
            if not error.is_unread:
                _complain(LabError(f"standard output cannot be written: {error.reason}", "writable output"))
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
        _complain(_of_the_same_lab(error))
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
    return ExitCode.USAGE


def _of_the_same_lab(error: LabError) -> LabError:
    """Return the error with the lab in its next step that this command named."""
    named = [value for option, value in pairwise(sys.argv) if option == "--lab"]
    named += [word.removeprefix("--lab=") for word in sys.argv if word.startswith("--lab=")]
    if named and error.next_step:
        from replication_lab.cli import next_step

        error.next_step = next_step.with_lab(error.next_step, named[-1], cli)
    return error


def _refuse_deleted_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise LabError("the current folder was deleted", "a folder that exists", "cd, then the same command") from None


def _explained(error: Exception) -> LabError | None:
    """Return the error for a missing extra, a name that is too long or an engine that failed; None for a defect."""
    missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if extra := EXTRAS.get(missing.partition(".")[0]):
        from replication_lab.world import folders

        return LabError(
            f"this needs the extra [{extra}], which is not installed",
            "the packages of this extra in the lab's environment",
            folders.installing(extra),
        )
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        from replication_lab.world import files

        return files.too_long(error.filename)
    # Import Docker's library only if the error is one of Docker's, because the import is slow.
    client = sys.modules.get("replication_lab.world.docker.client")
    return client.explained(error) if client else None


def _say_stopped(error: BaseException) -> int:
    """Print what an interruption stopped, and what was removed if anything was; return its exit status."""
    from replication_lab.cli.console import tell

    # click wraps an interruption; the signal's name is in the wrapped exception.
    stop = signals.interruption_within(error) or KeyboardInterrupt("SIGINT")
    signals.forget()
    failed = [] if isinstance(error, (KeyboardInterrupt, click.Abort)) else [f"meanwhile this failed: {error!r}"]
    left = [stop.said] if isinstance(stop, signals.Stopped) else []
    left += [f"{name}, which this command had started, was removed" for name in signals.REMOVED]
    if not left and COMMANDS.get(Deferred.used, {}).get("changes"):
        left = ["it may have acted in part; ./lab status shows the state now"]
    tell("; ".join([f"stopped ({str(stop) or 'SIGINT'})", *left, *failed]))
    return signals.exit_status(str(stop) or "SIGINT")


def _with_the_way_on(error: click.UsageError) -> LabError:
    """Return the error of an option or argument that click refused, with how the command is used."""
    found = error.format_message().removesuffix(".")
    if isinstance(error, click.NoSuchOption) and error.option_name.lstrip("-").isdigit():
        found = "a value that begins with a dash is read as an option; no value here is negative"
    if error.ctx is None:
        return LabError(found, "a command", "./lab --help")
    usage = " ".join(error.ctx.get_usage().removeprefix("Usage: ").split())
    return LabError(found, usage, f"./{error.ctx.command_path} --help")


def _complain(error: Exception) -> None:
    # Colours take longer to load than the help takes to print.
    from replication_lab.cli.console import complain

    complain(error)
