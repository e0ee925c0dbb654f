"""The commands for nodes: sql, logs, exec, stop, kill, pause, start, and those that change which one accepts writes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from replication_lab import replication
from replication_lab.cli import command, names, output
from replication_lab.cli.console import complain, leave_by, out, print_json, tell
from replication_lab.cli.options import Written, all_of, as_json, as_rows, of_lab, one_node
from replication_lab.lab import managers, sql_files
from replication_lab.lab import nodes as acting
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.model.core.errors import LabError, OutcomeUnknown
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.quantity import COUNT, DURATION
from replication_lab.model.question.sql_text import Statement
from replication_lab.replication.kind import Nodes
from replication_lab.replication.role_changes import SWITCHOVER
from replication_lab.world import given_texts, signals
from replication_lab.world.docker import project
from replication_lab.world.docker.attached import AttachedLab, refuse_attached
from replication_lab.world.docker.engine import command_for
from replication_lab.world.docker.lab import Lab

of_one_node = all_of(one_node, of_lab, as_json)
of_some_nodes = all_of(
    click.argument("nodes", nargs=-1, required=True, metavar="NODE…", shell_complete=names.nodes),
    of_lab,
    as_json,
)


@command("sql")
@click.argument("node", required=False, shell_complete=names.nodes)
@click.option("-e", "--execute", "typed")
@click.option("--file", "-f", type=click.Path(path_type=Path), metavar="FILE")
@of_lab
@as_rows
def sql(node: str | None, typed: str | None, file: Path | None, name: str | None, json_: bool) -> None:
    if file and typed is not None:
        raise LabError("--file with --execute", "one of the two", "./lab sql --help")
    lab = project.find(name)
    node = node or replication.of(lab).written_at()
    if file:
        given = given_texts.read(file)
        lab.topology.node(node)
        acting.refuse_unless_running(lab, node)
        with _unknown_is_no_error():
            sql_files.load(lab, node, given)
        print_json({"node": node, "file": given.name}) if json_ else out.print(f"{given.name} was run on {node}")
        return
    if typed is not None:
        _run(lab, node, typed, json_)
        return
    schema = filter(None, [lab.database(node)])
    user, password = lab.administrator(node)
    _become(lab, node, [*views.client(lab, node), f"-u{user}", *schema], password)


def _run(lab: Lab, node: str, typed: str, json_: bool) -> None:
    results: list[list[dict[str, Any]]] = []

    def each(statement: Statement, rows: list[dict[str, Any]]) -> None:
        if json_:
            results.append([{key: _plain(value) for key, value in row.items()} for row in rows])
        else:
            output.rows(out, rows, upright=statement.upright)

    try:
        with _unknown_is_no_error():
            sql_files.run_typed(lab, node, typed, each)
    finally:
        # Also those of the statements before one that failed: they have had their effect.
        if json_ and results:
            print_json(results[0] if len(results) == 1 else results, json_)


@contextmanager
def _unknown_is_no_error() -> Iterator[None]:
    try:
        yield
    except OutcomeUnknown as error:
        complain(error)
        sys.exit(ExitCode.UNKNOWN)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, type(None))) else str(value)


@command("logs")
@one_node
@click.option("--tail", "-n", "lines", type=Written(COUNT, 1), metavar="NUMBER")
@click.option("--since", type=Written(DURATION), metavar="TIME")
@click.option("-f", "--follow", is_flag=True)
@of_lab
@as_json
def logs(*, node: str, lines: int | None, since: float | None, follow: bool, name: str | None, json_: bool) -> None:
    if follow and json_:
        raise LabError("--follow with --json", "one of them", f"./lab logs {node} --follow")
    service = project.find(name).service(node)
    if follow:
        for found in service.follow_logs(lines or "all", since):
            click.echo(found, nl=False)
        return
    found = service.logs(lines or "all", since)
    print_json({"node": node, "lines": found.splitlines()}) if json_ else click.echo(found, nl=False)


@command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@one_node
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND…")
@of_lab
@as_json
def execute(node: str, command: tuple[str, ...], name: str | None, json_: bool) -> None:
    lab = project.find(name)
    acting.refuse_unless_running(lab, node)
    if json_:
        inside = replication.of(lab).inside(node, command)
        try:
            print_json({"node": node, "output": lab.service(node).run(*inside)})
        except KeyboardInterrupt as stop:
            raise signals.Stopped(str(stop), f"the command may still run in {node}") from stop
        return
    is_own_node = not isinstance(lab, AttachedLab) and node in {each.name for each in lab.topology.nodes}
    _, password = lab.administrator(node) if is_own_node else ("", None)
    _become(lab, node, replication.of(lab).inside(node, command, terminal=sys.stdin.isatty()), password)


def _become(lab: Lab, service: str, command: list[str], password: str | None) -> None:
    """Replace this process by a command in a container, with the caller's terminal.

    A password becomes the variable MYSQL_PWD there. Docker gets only its name: arguments are visible to other users.
    """
    terminal = "-it" if sys.stdin.isatty() else "-i"
    variable = []
    if password is not None:
        os.environ["MYSQL_PWD"], variable = password, ["-e", "MYSQL_PWD"]
    container = str(lab.service(service).container.name)
    docker = command_for(lab.service(service).site)
    os.execvp("docker", [*docker, "exec", terminal, *variable, container, *command])


def _act(verb: str, signal: str, nodes: tuple[str, ...], name: str | None, json_: bool) -> None:
    lab = project.find(name)
    proofs = acting.act(lab, verb, nodes, tell, signal)
    if json_:
        print_json(proofs)
    else:
        output.proofs(out, proofs)
        if not acting.VERBS[verb].undoes or all(proof.ok for proof in proofs):
            output.after_acting(out, lab, acting.VERBS[verb].after, nodes)
    leave_by(proofs, ExitCode.UNKNOWN)


def _command(verb: str) -> click.Command:
    """Return the command for a verb of `lab.nodes`."""
    return command(verb)(of_some_nodes(partial(_act, verb, acting.KILL)))


stop, pause, start = map(_command, ("stop", "pause", "start"))


@command("kill")
@of_some_nodes
@click.option(
    "--signal", "-s", type=click.Choice(acting.SIGNALS, case_sensitive=False), default=acting.KILL, show_default=True
)
def kill(nodes: tuple[str, ...], signal: str, name: str | None, json_: bool) -> None:
    _act("kill", signal, nodes, name, json_)


@contextmanager
def _changing(name: str | None, command: str) -> Iterator[Nodes]:
    """Give the nodes of the lab of that name, which no other command uses, changes or removes within the block."""
    with labs.changing(name, f"lab {command}") as lab:
        refuse_attached(lab, command)
        labs.refuse_in_use(lab)
        # A planned change is made by the manager itself, if there is one.
        with nullcontext() if command == SWITCHOVER else managers.quieted(lab):
            yield replication.of(lab)


@command("failover")
@of_one_node
@click.option("--allow-data-loss", is_flag=True)
def failover(node: str, allow_data_loss: bool, name: str | None, json_: bool) -> None:
    with _changing(name, "failover") as nodes:
        done = nodes.take_over(node, allow_data_loss)
    print_json(done) if json_ else output.say(out, "promoted", done=done)


@command("switchover")
@of_one_node
def switchover(node: str, name: str | None, json_: bool) -> None:
    with _changing(name, SWITCHOVER) as nodes:
        done = nodes.switch_over(node)
    print_json(done) if json_ else output.say(out, "switched", done=done)


@command("rejoin")
@of_one_node
@click.option("--discard-errant", is_flag=True)
def rejoin(node: str, discard_errant: bool, name: str | None, json_: bool) -> None:
    with _changing(name, "rejoin") as nodes:
        done = nodes.take_back(node, discard_errant, tell)
    print_json(done) if json_ else output.say(out, "rejoined", done=done)


@command("standby")
@of_one_node
def standby(node: str, name: str | None, json_: bool) -> None:
    with _changing(name, "standby") as nodes:
        done = nodes.standby(node)
    moved = "" if done.seconds is None else f"; its service moved to the peer in {done.seconds:.1f} s"
    print_json(done) if json_ else out.print(f"{done.standby} is in standby{moved}")


@command("online")
@of_one_node
def online(node: str, name: str | None, json_: bool) -> None:
    with _changing(name, "online") as nodes:
        done = nodes.online(node, tell)
    print_json(done) if json_ else output.say(out, "rejoined", done=done)
