"""The commands for a project that the lab did not write: attach, detach."""

import sys
from typing import Any

import click

from replication_lab.attach import attach as attaching
from replication_lab.attach.asked_link import parse_link
from replication_lab.attach.plan import AskedAttachment, AttachPlan, plan, warnings
from replication_lab.cli import output
from replication_lab.cli.console import out, print_json, tell
from replication_lab.cli.options import as_json, of_lab
from replication_lab.lab import status as views
from replication_lab.lab.up import known_toxic
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.accounts import AS_TYPED, parse_dsn

UNKNOWN = 2


@click.command()
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Compose file of the project; may be repeated, as for docker compose.  [default: the files that the running "
    "project was started from]",
)
@click.option(
    "-p", "--project-name", "project", default="", metavar="NAME", help="Name of the project, as for docker compose."
)
@click.option(
    "--env-file",
    "env_files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Environment file, as for docker compose.",
)
@click.option("--profile", "profiles", multiple=True, metavar="NAME", help="Profile to enable, as for docker compose.")
@click.option(
    "--link",
    "links",
    multiple=True,
    required=True,
    metavar="CONSUMER:SERVER[:PORT]",
    help="Put a link between a service and the database server that it connects to; may be repeated. Between two "
    "servers, in whichever order, it carries the replication.",
)
@click.option(
    "--rtt",
    default="none",
    metavar="CONDITION",
    help="Condition of each link from the start, such as 40ms; see `lab toxic`.  [default: none]",
)
@click.option(
    "--dsn",
    "dsns",
    multiple=True,
    metavar="SERVER=@FILE",
    help="Account that the lab uses on a server: a file with mysql://USER:PASSWORD@ that only you can read (mode "
    "0600); may be repeated. An account in place of @FILE is accepted, but other users can read it meanwhile.  "
    "[default: the one in its container's environment]",
)
@click.option("--yes", is_flag=True, help="Do not ask before containers are recreated.")
@as_json
def attach(
    *,
    links: tuple[str, ...],
    rtt: str,
    dsns: tuple[str, ...],
    yes: bool,
    json_: bool,
    **of_compose: Any,
) -> None:
    """Put Toxiproxy between services of a running Compose project that the lab did not write.

    No file of the project is changed: an override file gives each CONSUMER a name of its own for the SERVER, so that
    one service can have a slow link to a server while another does not. For this the lab recreates the consumer's
    container; it asks first. `lab detach` restores the project.

    The attached project is a lab: `lab status`, `lab toxic` and `lab drill --lab NAME` act on it.

    Exit status 0: attached and verified, 2: attached, but nothing has crossed one of the links so far.

    Example: lab attach -f docker-compose.yml --link app:db --rtt 40ms

    Example: lab attach --link app:db --link db:db-replica --dsn db=@account --yes
    """
    known_toxic(rtt)
    accounts = dict(map(parse_dsn, dsns))
    for server in (name for name, each in accounts.items() if each.origin == AS_TYPED and each.password):
        tell(
            f"--dsn {server}=…: every user of this host can read the password in the list of processes. "
            f"Better: --dsn {server}=@FILE, a file with mysql://USER:PASSWORD@ and mode 0600"
        )
    asked = AskedAttachment(links=[parse_link(text) for text in links], accounts=accounts, **of_compose)
    found = plan(asked)
    _ask(found, yes)
    lab, proofs = attaching.attach(found, rtt, tell)
    if json_:
        print_json(views.view(lab))
    else:
        output.how_to_use_attached(out, lab)
    sys.exit(UNKNOWN if any(map(attaching.is_unseen, proofs)) else 0)


def at_terminal() -> bool:
    """Return whether somebody can answer."""
    return sys.stdin.isatty()


def _ask(found: AttachPlan, yes: bool) -> None:
    """Say what will happen, and go on only if the user agrees."""
    for line in warnings(found):
        tell(line)
    if yes:
        return
    services = ", ".join(each.service for each in found.attached.consumers)
    if not at_terminal():
        raise LabError(
            f"{services} of {found.attached.compose.project} would be recreated; there is no terminal to confirm it",
            "a terminal, or --yes",
            "./lab attach --yes with the same options",
        )
    if not click.confirm(f"Recreate {services}?", err=True):
        raise LabError("not confirmed; nothing was changed", "the answer y", "./lab attach --yes with the same options")


@click.command()
@of_lab
@as_json
def detach(name: str | None, json_: bool) -> None:
    """Restore an attached project: recreate its consumers without the lab, and remove what the lab added.

    Nothing of the project is removed. --lab is optional if only one project is attached. A project whose Toxiproxies
    were removed by other means is restored, too.

    Exit status 0: the project is as it was, 1: it differs, because its files changed meanwhile.

    Example: lab detach --lab shop
    """
    done = attaching.detach(name, tell)
    if json_:
        unnamed = [{"service": service, "volume": volume} for service, volume in done.unnamed]
        print_json({"detached": done.project, "differences": done.differences, "unnamed_volumes": unnamed})
    else:
        same = "" if done.differences else "; its containers have their previous settings"
        out.print(f"{done.project} is detached{same}")
        for each in done.differences:
            out.print(f"  {each}", markup=False)
        for service, volume in done.unnamed:
            out.print(f"  {service} keeps a volume that `docker compose down --volumes` no longer removes; after that:")
            out.print(f"  docker volume rm {volume}", markup=False, soft_wrap=True)
    sys.exit(1 if done.differences else 0)
