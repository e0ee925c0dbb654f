"""The commands for a link between two nodes: link set, link cut, link restore."""

from collections.abc import Sequence
from contextlib import closing

import click

from replication_lab.cli import command, help_of, names
from replication_lab.cli.console import leave_by, out, print_json
from replication_lab.cli.options import all_of, as_json, of_lab
from replication_lab.faults.cut import Cut
from replication_lab.faults.fault import proofs_of
from replication_lab.lab import up as labs
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.condition import parse_links
from replication_lab.world import lab_files

link = click.Group("link", help=help_of("link"))
of_links = all_of(
    click.argument("links", nargs=-1, required=True, metavar="LINK…", shell_complete=names.links),
    of_lab,
    as_json,
)


@command("link set", link)
@click.argument("link", shell_complete=names.links)
@click.argument("toxic", required=False, metavar="[CONDITION]", shell_complete=names.toxics)
@click.argument("more", nargs=-1, metavar="")
@of_lab
@as_json
def link_set(link: str, toxic: str | None, more: tuple[str, ...], name: str | None, json_: bool) -> None:
    if "=" in link:
        asked = parse_links([link, *filter(None, [toxic]), *more])
    elif more or not toxic:
        raise LabError(
            f"unexpected {' '.join(more)} after {link} {toxic}" if more else f"no condition given for {link}",
            "LINK CONDITION, or LINK=CONDITION for each of several links; the condition none removes all",
            "./lab toxic",
        )
    else:
        asked = {link: toxic}
    for each in asked.values():
        labs.known_toxic(each)
    with labs.changing(name, "lab link set") as lab:
        proofs = labs.set_toxics(lab, asked)
    _end(proofs, json_)


@command("link cut", link)
@of_links
def link_cut(links: tuple[str, ...], name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab link cut") as lab:
        with closing(Cut(lab, [lab.link(each).name for each in links])) as fault:
            fault.inject()
            proofs = proofs_of(fault)
    undo = "" if json_ else f"to undo: ./lab link restore {' '.join(links)} --lab {lab.name}"
    _end(proofs, json_, undo)


@command("link restore", link)
@of_links
def link_restore(links: tuple[str, ...], name: str | None, json_: bool) -> None:
    with labs.changing(name, "lab link restore") as lab:
        began = lab_files.saved_state(lab.name)
        at_first = began.toxics if began else lab.topology.toxics
        for each in links:
            lab.link(each).enable()
        proofs = labs.set_toxics(lab, {each: at_first.get(each, "none") for each in links})
    _end(proofs, json_)


def _end(proofs: Sequence[Proof], json_: bool, undo: str = "") -> None:
    if json_:
        print_json(proofs if len(proofs) > 1 else proofs[0])
    else:
        for proof in proofs:
            out.print(f"{proof.what}: {proof.found}", markup=False)
    if undo:
        out.print(undo, markup=False, soft_wrap=True)
    leave_by(proofs, ExitCode.UNKNOWN)
