"""The command line: `lab up|down|status|show|sql|toxic|run|judge|report|doctor|clean`."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click
import msgspec
from click.shell_completion import get_completion_class
from rich.console import Console

from harness import experiments, labs, screens, views
from harness.errors import LabError
from harness.world import catalogue, compose, docker_engine

# A pipe has no width of its own; addresses and sentences must not be broken for want of one.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True, highlight=False, soft_wrap=True)
FAILED = 3  # 0, 1 and 2 are verdicts
click.UsageError.exit_code = FAILED


def tell(line: str) -> None:
    """Progress and remarks go to standard error: standard output is for what was asked."""
    err.print(line, markup=False)


def print_json(data: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2))


def completed_by(names: Callable[[], list[str]]) -> Callable[..., list[str]]:
    return lambda _context, _parameter, typed: [name for name in names() if name.startswith(typed)]


def _lab_names() -> list[str]:
    return list(compose.all_labs())


def _nodes() -> list[str]:
    return sorted({node.name for name in catalogue.topologies() for node in catalogue.topology(name).nodes})


def _links() -> list[str]:
    return sorted({link.name for name in catalogue.topologies() for link in catalogue.topology(name).links})


def _runs() -> list[str]:
    return ["latest", *sorted(path.parent.name for path in catalogue.RUNS.glob("*/record.jsonl"))]


as_json = click.option("--json", "json_", is_flag=True, help="Print data instead of text.")
of_lab = click.option(
    "--lab", "name", metavar="NAME", shell_complete=completed_by(_lab_names), help="Which lab, where several are up."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def cli() -> None:
    """What happens to my writes if …? Real servers, real faults, verdicts that can be trusted.

    \b
    Start here:  lab up            a source and a semi-synchronous replica 85 ms apart
                 lab show          what is up, as a tree
                 lab run semisync_wan
    """


@cli.command()
@click.argument("topology", default="semisync", shell_complete=completed_by(catalogue.topologies))
@click.option(
    "--engine", default="mariadb", show_default=True, shell_complete=completed_by(lambda: sorted(catalogue.engines()))
)
@click.option("--name", help="Its Compose project; default lab-TOPOLOGY. Two names are two labs.")
@click.option(
    "--toxic", "toxics", multiple=True, metavar="LINK=TOXIC", help="In place of the topology's own; may be repeated."
)
@as_json
def up(topology: str, engine: str, name: str | None, toxics: tuple[str, ...], json_: bool) -> None:
    """Stand a topology up, prove it, and say how to connect.

    Example: lab up semisync --engine mysql-8.0 --toxic source-replica=wan-200ms
    """
    lab = labs.up(topology, engine, name, dict(map(_link_and_toxic, toxics)), tell)
    if json_:
        print_json(views.view(lab))
    else:
        screens.how_to_connect(out, lab)


def _link_and_toxic(text: str) -> tuple[str, str]:
    link, equals, toxic = text.partition("=")
    if not equals:
        raise LabError(f"--toxic {text} names no toxic", "LINK=TOXIC", "./lab up --help")
    return link, toxic


@cli.command()
@click.argument("name", required=False, shell_complete=completed_by(_lab_names))
@as_json
def down(name: str | None, json_: bool) -> None:
    """Take a lab away with its data; the only one when no NAME is given.

    Example: lab down lab-semisync
    """
    gone = labs.down(name, tell)
    if json_:
        print_json({"down": gone})


@cli.command()
@click.argument("name", required=False, shell_complete=completed_by(_lab_names))
@as_json
def status(name: str | None, json_: bool) -> None:
    """The labs that are up: nodes, links, toxics, what is replicating.

    Example: lab status --json
    """
    docker_engine.client()
    chosen = [compose.find(name)] if name else list(compose.all_labs().values())
    seen = [views.view(lab) for lab in chosen]
    if json_:
        print_json(seen)
    else:
        screens.status(out, seen)


@cli.command()
@click.argument("name", required=False, shell_complete=completed_by(_lab_names))
@as_json
def show(name: str | None, json_: bool) -> None:
    """One lab as a tree: roles, links, toxics, state.

    Example: lab show
    """
    seen = views.view(compose.find(name))
    if json_:
        print_json(seen)
    else:
        screens.tree(out, seen)


@cli.command()
@click.argument("node", default="source", shell_complete=completed_by(_nodes))
@click.option("-e", "--execute", "statement", help="Run one statement and print its rows.")
@of_lab
@as_json
def sql(node: str, statement: str | None, name: str | None, json_: bool) -> None:
    """A client on a node, as root.

    Example: lab sql replica -e "SELECT COUNT(*) FROM lab.foo"
    """
    lab = compose.find(name)
    server = lab.server(node)
    if statement:
        rows = server.rows(statement)
        print_json([{key: _plain(value) for key, value in row.items()} for row in rows]) if json_ else screens.rows(
            out, rows
        )
        return
    client = "mariadb" if lab.run(node, "sh", "-c", "command -v mariadb || true").strip() else "mysql"
    terminal = ["-it"] if sys.stdin.isatty() else ["-i"]
    os.environ["MYSQL_PWD"] = lab.password
    os.execvp(
        "docker", ["docker", "exec", *terminal, "-e", "MYSQL_PWD", lab.container(node).name, client, "-uroot", "lab"]
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


@cli.command()
@click.argument("link", required=False, shell_complete=completed_by(_links))
@click.argument("toxic", required=False, shell_complete=completed_by(lambda: [*catalogue.toxics(), "none"]))
@click.option("--check", metavar="TOXIC", help="Only check a file of toxics/.")
@of_lab
@as_json
def toxic(link: str | None, toxic: str | None, check: str | None, name: str | None, json_: bool) -> None:
    """List toxics; put one on a LINK in place of what is there; take it off with none.

    Example: lab toxic source-replica wan-200ms
    """
    if check:
        click.echo(f"{check}: {catalogue.toxic(check).about}")
    elif not link:
        known = [catalogue.toxic(each) for each in catalogue.toxics()]
        print_json({each.name: each.about for each in known}) if json_ else screens.toxics(out, known)
    elif not toxic:
        raise LabError(f"no toxic named for {link}", "LINK TOXIC, or LINK none", "./lab toxic")
    else:
        proof = labs.set_toxic(compose.find(name), link, toxic)
        print_json(proof) if json_ else out.print(f"{proof.what}: {proof.found}")
        sys.exit(0 if proof.ok else FAILED)


@cli.command()
@click.argument("experiment", shell_complete=completed_by(experiments.names))
@click.option(
    "--engine",
    default="mariadb",
    show_default=True,
    metavar="ENGINE[,ENGINE…]",
    help="One after another, in one record.",
)
@click.option("--full", is_flag=True, help="The published sizes instead of minutes.")
@click.option("--seed", default=7, show_default=True, help="Of the order of cases and of the rows.")
@as_json
def run(experiment: str, engine: str, full: bool, seed: int, json_: bool) -> None:
    """Run an experiment and judge its claims; exit status 0 as expected, 1 a verdict changed, 2 unknown.

    Example: lab run semisync_wan --engine mariadb,mysql-8.0
    """
    from harness import running

    folder, summary = running.run(
        experiments.load(experiment), engine.split(","), "full" if full else "quick", seed, tell
    )
    _print_summary(summary, json_)
    tell(f"record and report: {os.path.relpath(folder)} (report.html, summary.json, junit.xml)")
    sys.exit(summary.exit_code)


@cli.command()
@click.argument("run", default="latest", shell_complete=completed_by(_runs))
@as_json
def judge(run: str, json_: bool) -> None:
    """Judge a run again from its record; needs no Docker. RUN is a folder, a name under runs/, or latest.

    Example: lab judge latest --json
    """
    from harness import running

    summary = running.judge(run)
    _print_summary(summary, json_)
    sys.exit(summary.exit_code)


@cli.command()
@click.argument("run", default="latest", shell_complete=completed_by(_runs))
@as_json
def report(run: str, json_: bool) -> None:
    """Write summary.json, junit.xml and report.html of a run again from its record.

    Example: lab report latest
    """
    from harness import running

    written = running.report(run)
    print_json(written) if json_ else out.print("\n".join(written))


def _print_summary(summary: Any, json_: bool) -> None:
    from harness.report import summary as summaries
    from harness.report import terminal

    if json_:
        click.echo(summaries.encode(summary))
    else:
        terminal.show(summary)


@cli.command()
@as_json
def doctor(json_: bool) -> None:
    """What this machine has and lacks, what is left behind, and the command that mends it.

    Example: lab doctor
    """
    from harness import examination

    findings = examination.examine()
    print_json(findings) if json_ else screens.findings(out, findings)
    sys.exit(0 if all(finding.ok for finding in findings) else FAILED)


@cli.command()
@click.option("--images", "images_", is_flag=True, help="The lab's images too.")
@as_json
def clean(images_: bool, json_: bool) -> None:
    """Remove every lab that no running command uses, and whatever killed ones left behind.

    Example: lab clean --images
    """
    gone = labs.clean(images_, tell)
    print_json({"removed": gone}) if json_ else out.print("\n".join(gone) or "nothing to remove")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), default="bash")
def completion(shell: str) -> None:
    """Print the shell's completion of lab's commands and names.

    Example: eval "$(./lab completion bash)"
    """
    click.echo(get_completion_class(shell)(cli, {}, "lab", "_LAB_COMPLETE").source())


def _stop(number: int, _frame: Any) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def main() -> None:
    """The entry point: errors are three lines and status 3, defects a traceback and 3; signals clean up first."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        cli(prog_name="lab", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(FAILED)
    except LabError as error:
        err.print(f"[red]error:[/] {screens.plain(str(error))}")
        sys.exit(FAILED)
    except (KeyboardInterrupt, click.Abort) as stop:
        # click wraps an interruption; the signal's name is in what it wrapped.
        err.print(f"stopped ({str(stop.__cause__ or stop) or 'SIGINT'}); what this command had started is gone")
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        sys.exit(FAILED)
