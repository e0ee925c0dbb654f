"""The commands for a project that the lab did not write: attach, detach."""

import sys
from typing import Any

import click

from replication_lab.attach import attach as attaching
from replication_lab.attach.as_before import NotAsBefore
from replication_lab.attach.checks import parse_link
from replication_lab.attach.plan import AskedAttachment, plan, warnings
from replication_lab.cli import command, console, output
from replication_lab.cli.console import complain, out, print_json, tell
from replication_lab.cli.options import as_json, of_lab, of_yes
from replication_lab.lab import status as views
from replication_lab.lab.up import known_toxic
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.world.mysql.accounts import AS_TYPED, parse_dsn


@command("attach")
@click.option("-f", "--file", "files", multiple=True, type=click.Path(), metavar="FILE")
@click.option("-p", "--project-name", "project", default="", metavar="NAME")
@click.option("--env-file", "env_files", multiple=True, type=click.Path(), metavar="FILE")
@click.option("--profile", "profiles", multiple=True, metavar="NAME")
@click.option("--link", "links", multiple=True, required=True, metavar="CONSUMER:SERVER[:PORT]")
@click.option("--rtt", default="none", metavar="CONDITION")
@click.option("--dsn", "dsns", multiple=True, metavar="SERVER=@FILE")
@click.option("--endpoint", default="", metavar="SERVICE:PORT")
@click.option("--manager", default="", metavar="SERVICE")
@of_yes
@as_json
def attach(
    *, links: tuple[str, ...], rtt: str, dsns: tuple[str, ...], yes: bool, json_: bool, **of_compose: Any
) -> None:
    known_toxic(rtt)
    accounts = dict(map(parse_dsn, dsns))
    for server in (name for name, each in accounts.items() if each.origin == AS_TYPED and each.password):
        tell(
            f"--dsn {server}=…: every user of this host can read the password in the list of processes. "
            f"Better: --dsn {server}=@FILE, a file with mysql://USER:PASSWORD@ and mode 0600"
        )
    asked = AskedAttachment(links=[parse_link(text) for text in links], accounts=accounts, **of_compose)
    found = plan(asked)
    files = [f"--dsn={node}=@{each.origin if each.origin != AS_TYPED else 'FILE'}" for node, each in accounts.items()]
    others = [*(["--rtt", rtt] if rtt != "none" else []), *files]
    named = {"--endpoint": found.attached.endpoint, "--manager": found.attached.manager}
    others += [part for option, value in named.items() if value for part in (option, value)]
    for line in warnings(found):
        tell(line)
    if not yes:
        compose, services = found.attached.compose, ", ".join(each.service for each in found.attached.consumers)
        what = f"{services} of {compose.project} would be recreated"
        console.ask(f"Recreate {services}?", what, compose.attached_by(links, *others))
    try:
        lab, proofs = attaching.attach(found, rtt, tell)
    except NotAsBefore as error:
        complain(error)
        sys.exit(ExitCode.FINDING)
    if json_:
        print_json(views.view(lab))
    else:
        output.say(out, "attached", lab=lab.name, link=lab.topology.links[0].name, drills=not found.no_drills)
    sys.exit(ExitCode.UNKNOWN if any(map(attaching.is_unseen, proofs)) else ExitCode.GOOD)


@command("detach")
@of_lab
@as_json
def detach(name: str | None, json_: bool) -> None:
    done = attaching.detach(name, tell)
    if json_:
        unnamed = [{"service": service, "volume": volume} for service, volume in done.unnamed]
        told = {"detached": done.project, "differences": done.differences, "unnamed_volumes": unnamed}
        print_json(told | {"broken": done.broken and done.broken.found})
    else:
        same = "" if done.differences else "; its containers have their previous settings"
        out.print(f"{done.project} is detached{same}")
        for each in done.differences:
            out.print(f"  {each}", markup=False)
        for service, volume in done.unnamed:
            out.print(f"  {service} keeps a volume that `docker compose down --volumes` no longer removes; after that:")
            out.print(f"  docker volume rm {volume}", markup=False, soft_wrap=True)
    if done.broken:
        complain(done.broken)
    sys.exit(ExitCode.FINDING if done.differences or done.broken else ExitCode.GOOD)
