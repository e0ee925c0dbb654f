"""The command line: `lab up|down|status|show|sql|toxic|engines|disk|drbd|ha|migrate|failover|drill|run|judge|…`."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click
import msgspec
from click.core import ParameterSource
from click.shell_completion import get_completion_class
from rich.console import Console

from replication_lab import experiments
from replication_lab.cli import output
from replication_lab.lab import disks
from replication_lab.lab import status as views
from replication_lab.lab import up as labs
from replication_lab.model.errors import LabError
from replication_lab.model.storage import AUTO
from replication_lab.replication import drbd_operations, pacemaker_operations
from replication_lab.replication import failover as succession
from replication_lab.world import catalogue
from replication_lab.world.disks import array as arrays
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import lab as compose
from replication_lab.world.drbd import machines as drbd_machines
from replication_lab.world.drbd import verify

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


def _drills() -> list[str]:
    return sorted({drill for topology in catalogue.topologies() for drill in catalogue.drills(topology)})


def _runs() -> list[str]:
    return ["latest", *sorted(path.parent.name for path in catalogue.RUNS.glob("*/record.jsonl"))]


as_json = click.option("--json", "json_", is_flag=True, help="Print data instead of text.")
of_lab = click.option(
    "--lab", "name", metavar="NAME", shell_complete=completed_by(_lab_names), help="Which lab, where several are up."
)


DISK_OPTIONS = (
    click.option("--disk", default="ssd", show_default=True, metavar="NAME", help="Of compose/storage/disks.yaml."),
    click.option("--disks", type=int, default=0, help="How many, 2 to 8; default 2, and 1 for single."),
    click.option("--disk-size", "mib", type=int, default=2048, show_default=True, help="MiB of each disk."),
    click.option("--backend", default=AUTO, show_default=True, help="What joins the disks: md, btrfs or auto."),
)


def of_disks(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say on which disks data are kept."""
    for option in reversed(DISK_OPTIONS):
        command = option(command)
    return command


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
@click.option(
    "--storage",
    multiple=True,
    metavar="[NODE=]LEVEL",
    help="Data on single, raid0 or raid1 of emulated disks; of all replicas when no NODE is named; may be repeated.",
)
@of_disks
@as_json
def up(
    topology: str,
    engine: str,
    name: str | None,
    toxics: tuple[str, ...],
    storage: tuple[str, ...],
    json_: bool,
    **of_disks: Any,
) -> None:
    """Stand a topology up, prove it, and say how to connect.

    Example: lab up semisync --engine mysql-8.0 --toxic source-replica=wan-200ms
    Example: lab up async --storage raid0 --disk sata-7200
    """
    source = click.get_current_context().get_parameter_source
    given = [f"--{each}" for each in of_disks if source(each) is ParameterSource.COMMANDLINE]
    placed = labs.storage_of(topology, storage, given, **of_disks)
    lab = labs.up(topology, engine, name, dict(map(_link_and_toxic, toxics)), tell, storage=placed)
    if json_:
        print_json(views.view(lab))
    else:
        output.how_to_connect(out, lab)


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
        output.status(out, seen)


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
        output.tree(out, seen)


@cli.command()
@click.argument("node", required=False, shell_complete=completed_by(_nodes))
@click.option("-e", "--execute", "statement", help="Run one statement and print its rows.")
@of_lab
@as_json
def sql(node: str | None, statement: str | None, name: str | None, json_: bool) -> None:
    """A client on a node, as root; on the source, the primary or a cluster's first node, when no NODE is given.

    Example: lab sql replica -e "SELECT COUNT(*) FROM lab.foo"
    """
    lab = compose.find(name)
    node = node or views.writer(lab)
    server = lab.server(node)
    if statement:
        rows = server.rows(statement)
        print_json([{key: _plain(value) for key, value in row.items()} for row in rows]) if json_ else output.rows(
            out, rows
        )
        return
    terminal = "-it" if sys.stdin.isatty() else "-i"
    os.environ["MYSQL_PWD"] = lab.password
    client = [*views.client(lab, node), "-uroot", "lab"]
    os.execvp("docker", ["docker", "exec", terminal, "-e", "MYSQL_PWD", lab.container(node).name, *client])


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
        print_json({each.name: each.about for each in known}) if json_ else output.toxics(out, known)
    elif not toxic:
        raise LabError(f"no toxic named for {link}", "LINK TOXIC, or LINK none", "./lab toxic")
    else:
        proof = labs.set_toxic(compose.find(name), link, toxic)
        print_json(proof) if json_ else out.print(f"{proof.what}: {proof.found}")
        sys.exit(0 if proof.ok else FAILED)


@cli.command()
@as_json
def engines(json_: bool) -> None:
    """The servers that a node can be: version, source, features, what each lacks and why, whether its image is built.

    Example: lab engines --json
    """
    known = views.engines()
    print_json(known) if json_ else output.engines(out, known)


@cli.command()
@click.argument("node", shell_complete=completed_by(_nodes))
@click.option("--to", "level", required=True, metavar="LEVEL", help="single, raid0 or raid1.")
@of_disks
@of_lab
@as_json
def migrate(node: str, level: str, name: str | None, json_: bool, **of_disks: Any) -> None:
    """Move a replica's data onto other disks: stop, copy, switch, start, wait until in sync, compare.

    An error or Ctrl-C before the switch puts the old data back into service; killed, the same command goes on.

    Example: lab migrate replica --to raid0 --disk sata-7200
    """
    from replication_lab.lab import migrate as migration

    lab = compose.find(name)
    [storage] = labs.storage_of(lab.topology.name, [f"{node}={level}"], **of_disks).values()
    done = migration.migrate(lab, node, storage, tell)
    print_json(done) if json_ else output.migrated(out, done)


@cli.command()
@click.argument("node", shell_complete=completed_by(_nodes))
@click.option("--seconds", type=click.FloatRange(1, 600), default=5, show_default=True, help="How long to look.")
@of_lab
@as_json
def diagnose(node: str, seconds: float, name: str | None, json_: bool) -> None:
    """Say which resource a node waits for: lock, network, CPU, fsync latency, disk, applier thread, or none.

    Example: lab diagnose replica --seconds 10
    """
    from replication_lab.model.bottleneck import diagnose
    from replication_lab.probes.node_resources import sample

    seen = sample(compose.find(name), node, seconds)
    found = diagnose(seen)
    print_json({"diagnosis": found, "sample": seen}) if json_ else output.diagnosis(out, found, seen)


@cli.group()
def disk() -> None:
    """The emulated disks under a node: list, limit, check, fail, corrupt, heal, replace.

    Example: lab disk list
    """


@disk.command("list")
@click.argument("node", required=False, shell_complete=completed_by(_nodes))
@of_lab
@as_json
def disk_list(node: str | None, name: str | None, json_: bool) -> None:
    """Each disk: what it is set to, and what it has done.

    Example: lab disk list replica
    """
    lab = compose.find(name)
    seen = views.disks(lab, [node] if node else None)
    print_json(seen) if json_ else output.disks(out, seen)


@disk.command("limit")
@click.argument("node", shell_complete=completed_by(_nodes))
@click.argument("disk")
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE…")
@of_lab
@as_json
def disk_limit(node: str, disk: str, changes: tuple[str, ...], name: str | None, json_: bool) -> None:
    """Change what a disk can do while it is used: read_iops, write_iops, bandwidth, flush_us, write_cache.

    Example: lab disk limit replica disk1 write_iops=100 flush_us=8000
    """
    limits = disks.change_limits(compose.find(name), node, disk, changes)
    print_json(limits) if json_ else out.print(f"{node} {disk}: {disks.said(limits)}")


@disk.command("check")
@click.argument("node", shell_complete=completed_by(_nodes))
@of_lab
@as_json
def disk_check(node: str, name: str | None, json_: bool) -> None:
    """Measure each disk by direct I/O, and read every file of the node's data from the disks; status 3 if not so.

    Example: lab disk check replica
    """
    proofs = disks.check(compose.find(name), node)
    print_json(proofs) if json_ else output.proofs(out, proofs)
    sys.exit(0 if all(proof.ok for proof in proofs) else FAILED)


@disk.command("fail")
@click.argument("node", shell_complete=completed_by(_nodes))
@click.argument("disk")
@of_lab
@as_json
def disk_fail(node: str, disk: str, name: str | None, json_: bool) -> None:
    """Let every request to a disk fail with EIO.

    Example: lab disk fail replica disk1
    """
    lab = compose.find(name)
    disks.fail(lab, node, disk)
    said = f"{node} {disk} fails; then: ./lab {'drbd status' if drbd_machines(lab) else f'disk check {node}'}"
    print_json({"failed": disk}) if json_ else out.print(said)


@disk.command("corrupt")
@click.argument("node", shell_complete=completed_by(_nodes))
@click.argument("disk")
@click.argument("text")
@of_lab
@as_json
def disk_corrupt(node: str, disk: str, text: str, name: str | None, json_: bool) -> None:
    """Invert the sectors of a disk that hold a text, silently: the disk answers, and what it answers is wrong.

    Example: lab disk corrupt replica disk1 "text of a row"
    """
    sectors = disks.corrupt(compose.find(name), node, disk, text)
    said = f"{node} {disk}: sectors inverted: {len(sectors)}; who reads them from the disk is told something wrong"
    print_json({"corrupted": disk, "offsets": sectors}) if json_ else out.print(said)


@disk.command("heal")
@click.argument("node", shell_complete=completed_by(_nodes))
@click.argument("disk")
@of_lab
@as_json
def disk_heal(node: str, disk: str, name: str | None, json_: bool) -> None:
    """Let a failed disk answer again, with what it held; of RAID1, whose other disks have gone on, replace it.

    Example: lab disk heal replica disk1
    """
    lab = compose.find(name)
    disks.heal(lab, node, disk)
    then = f"; DRBD takes it again by ./lab drbd online {node}" if drbd_machines(lab) else ""
    print_json({"healed": disk}) if json_ else out.print(f"{node} {disk} answers again{then}")


@disk.command("replace")
@click.argument("node", shell_complete=completed_by(_nodes))
@click.argument("disk")
@of_lab
@as_json
def disk_replace(node: str, disk: str, name: str | None, json_: bool) -> None:
    """Exchange a disk of RAID1 for an empty one and rebuild its data while the server goes on.

    Example: lab disk replace replica disk1
    """
    array = arrays.array(compose.find(name), node)
    array.replace(disk, lambda percent: tell(f"  {percent:.0f} % rebuilt"))
    print_json({"replaced": disk}) if json_ else out.print(f"{node} {disk} is rebuilt")


@cli.group()
def drbd() -> None:
    """The replicated disk of two machines: status, promote, standby, online, resolve, verify.

    Example: lab drbd status
    """


@drbd.command("status")
@of_lab
@as_json
def drbd_status(name: str | None, json_: bool) -> None:
    """What each machine says of it: role, connection, disks, what is out of sync; counts in KiB.

    Example: lab drbd status
    """
    seen = views.resource(compose.find(name))
    print_json(seen) if json_ else output.resource(out, seen)


@drbd.command("promote")
@click.argument("node", shell_complete=completed_by(_nodes))
@click.option("--behind", is_flag=True, help="Also a machine that may lack what the other one wrote.")
@of_lab
@as_json
def drbd_promote(node: str, behind: bool, name: str | None, json_: bool) -> None:
    """Make a machine the primary: file system, server. The other one has to be dead, or a secondary.

    Example: lab drbd promote node2
    """
    seconds = drbd_operations.promote(compose.find(name), node, behind)
    print_json({"primary": node, "seconds": seconds}) if json_ else out.print(f"{node} serves after {seconds:.1f} s")


@drbd.command("standby")
@click.argument("node", shell_complete=completed_by(_nodes))
@of_lab
@as_json
def drbd_standby(node: str, name: str | None, json_: bool) -> None:
    """Take a machine out of service; the other one serves, and writes to its own disk only.

    Example: lab drbd standby node2
    """
    seconds = drbd_operations.standby(compose.find(name), node)
    moved = "" if seconds is None else f"; its service moved in {seconds:.1f} s"
    print_json({"standby": node, "seconds": seconds}) if json_ else out.print(f"{node} stands by{moved}")


@drbd.command("online")
@click.argument("node", shell_complete=completed_by(_nodes))
@of_lab
@as_json
def drbd_online(node: str, name: str | None, json_: bool) -> None:
    """Take a machine into service again: connected, and resynchronised.

    Example: lab drbd online node2
    """
    found = drbd_operations.online(compose.find(name), node, lambda percent: tell(f"  {percent:.0f} % copied"))
    print_json(found) if json_ else out.print(f"{node}: {found.words()}")


@drbd.command("resolve")
@click.option("--victim", required=True, shell_complete=completed_by(_nodes), help="Gives up what only it wrote.")
@of_lab
@as_json
def drbd_resolve(victim: str, name: str | None, json_: bool) -> None:
    """End a split brain: what only the victim wrote is gone, and it gets the other's data.

    Example: lab drbd resolve --victim node2
    """
    found = drbd_operations.resolve(compose.find(name), victim)
    print_json(found) if json_ else out.print(f"{victim}: {found.words()}")


@drbd.command("verify")
@of_lab
@as_json
def drbd_verify(name: str | None, json_: bool) -> None:
    """Compare both disks block by block, while they are used; status 3 where they differ.

    Example: lab drbd verify
    """
    try:
        differing = verify(compose.find(name), lambda percent: tell(f"  {percent:.0f} % compared"))
    except KeyboardInterrupt:
        tell("the machines go on comparing: ./lab drbd status says how far they are")
        raise
    print_json({"differing_kib": differing}) if json_ else out.print(f"{differing} KiB differ")
    if differing:
        tell("the primary's blocks are copied to its peer when they meet again: ./lab drbd online NODE, of the peer")
    sys.exit(FAILED if differing else 0)


@cli.group()
def ha() -> None:
    """The cluster manager of two machines: status, standby, online.

    Example: lab ha status
    """


@ha.command("status")
@click.argument("node", required=False, shell_complete=completed_by(_nodes))
@of_lab
@as_json
def ha_status(node: str | None, name: str | None, json_: bool) -> None:
    """Who is in the cluster, what runs where, whom the service's address leads to; as NODE sees it, if one is named.

    Example: lab ha status node1 --json
    """
    seen = views.cluster(compose.find(name), node or "")
    print_json(seen) if json_ else output.cluster(out, seen)


@ha.command("standby")
@click.argument("node", shell_complete=completed_by(_nodes))
@of_lab
@as_json
def ha_standby(node: str, name: str | None, json_: bool) -> None:
    """Take a machine out of service, by `crm node standby`; what ran on it moves.

    Example: lab ha standby node1
    """
    seconds = pacemaker_operations.standby(compose.find(name), node)
    moved = "" if seconds is None else f"; clients reached the service on the other one after {seconds:.1f} s"
    print_json({"standby": node, "seconds": seconds}) if json_ else out.print(f"{node} stands by{moved}")


@ha.command("online")
@click.argument("node", shell_complete=completed_by(_nodes))
@of_lab
@as_json
def ha_online(node: str, name: str | None, json_: bool) -> None:
    """Take a machine into service again, by `crm node online`, and wait until its disk is equal.

    Example: lab ha online node1
    """
    seconds = pacemaker_operations.online(compose.find(name), node)
    print_json({"online": node, "seconds": seconds}) if json_ else out.print(f"{node} is whole after {seconds:.1f} s")


@cli.command()
@click.argument("node", shell_complete=completed_by(_nodes))
@click.option("--behind", is_flag=True, help="Also a replica that lacks what another server is known to have.")
@of_lab
@as_json
def failover(node: str, behind: bool, name: str | None, json_: bool) -> None:
    """Promote a replica to source; the old source refuses writes from then on, its other replicas follow the new one.

    A replica that has what the new source lacks follows nobody, and is named.

    Example: lab failover replica
    """
    done = succession.failover(compose.find(name), node, behind)
    print_json(done) if json_ else output.promoted(out, done)


@cli.command()
@click.argument("node", shell_complete=completed_by(_nodes))
@click.option("--discard", is_flag=True, help="Give up the transactions that only NODE has: its data are replaced.")
@of_lab
@as_json
def rejoin(node: str, discard: bool, name: str | None, json_: bool) -> None:
    """Let a node, such as an old source that has come back, follow the source; names the transactions that only it has.

    Example: lab rejoin source
    """
    done = succession.rejoin(compose.find(name), node, discard)
    print_json(done) if json_ else output.rejoined(out, done)


@cli.command()
@click.argument("topology", required=False, shell_complete=completed_by(catalogue.topologies))
@click.option("--fault", metavar="NAME", shell_complete=completed_by(_drills), help="Only this drill.")
@click.option("--seconds", type=float, help="How long the fault lasts, in place of what the drill's file says.")
@click.option("--seed", default=7, show_default=True, help="Of the moment in which the fault strikes.")
@click.option("--engine", default="mariadb", show_default=True)
@click.option("--judge", "judged", metavar="RUN", help="Judge recorded drills again instead; needs no Docker.")
@as_json
def drill(
    topology: str | None,
    fault: str | None,
    seconds: float | None,
    seed: int,
    engine: str,
    judged: str | None,
    json_: bool,
) -> None:
    """Break a lab of its own under load, mend it, and say what clients saw and lost; without TOPOLOGY list the drills.

    Exit status 0 as expected, 1 a verdict differs, 2 unknown. RUN is a folder, a name under runs/, or latest.

    Example: lab drill galera --fault kill-node
    """
    from replication_lab.model.drill import exit_code
    from replication_lab.report import drill_text
    from replication_lab.runner import drill_set

    if not topology and not judged:
        known = drill_set.known()
        print_json({name: {each.name: each.about for each in found} for name, found in known.items()}) if json_ else (
            click.echo(drill_text.listing(known))
        )
        return
    if judged:
        results = drill_set.judge(judged)
    else:
        drills = drill_set.chosen(topology, fault, seconds)
        folder, results = drill_set.run(topology, engine, drills, seed, tell)
        tell(f"record and ledgers: {os.path.relpath(folder)}")
    print_json(drill_set.as_data(results)) if json_ else click.echo(drill_text.text(results))
    sys.exit(exit_code(results))


@cli.command()
@click.argument("experiment", shell_complete=completed_by(experiments.names))
@click.option(
    "--engine",
    metavar="ENGINE[,ENGINE…]",
    help="In one record; or all that the experiment knows.  [default: mariadb, or those that it compares]",
)
@click.option("--full", is_flag=True, help="The published sizes instead of minutes.")
@click.option("--seed", default=7, show_default=True, help="Of the order of cases and of the rows.")
@as_json
def run(experiment: str, engine: str | None, full: bool, seed: int, json_: bool) -> None:
    """Run an experiment and judge its claims; exit status 0 as expected, 1 a verdict changed, 2 unknown.

    Example: lab run semisync_wan --engine mariadb,mysql-8.0
    """
    from replication_lab import runs

    found = experiments.load(experiment)
    engines = runs.available(found) if engine == "all" else engine.split(",") if engine else []
    folder, summary = runs.run(found, engines, "full" if full else "quick", seed, tell)
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
    from replication_lab import runs

    summary = runs.judge(run)
    _print_summary(summary, json_)
    sys.exit(summary.exit_code)


@cli.command()
@click.argument("run", default="latest", shell_complete=completed_by(_runs))
@as_json
def report(run: str, json_: bool) -> None:
    """Write summary.json, junit.xml and report.html of a run again from its record.

    Example: lab report latest
    """
    from replication_lab import runs

    written = runs.report(run)
    print_json(written) if json_ else out.print("\n".join(written))


def _print_summary(summary: Any, json_: bool) -> None:
    from replication_lab.report import summary as summaries
    from replication_lab.report import terminal

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
    from replication_lab.lab import doctor as examination

    findings = examination.examine()
    print_json(findings) if json_ else output.findings(out, findings)
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
        err.print(f"[red]error:[/] {output.plain(str(error))}")
        sys.exit(FAILED)
    except (KeyboardInterrupt, click.Abort) as stop:
        # click wraps an interruption; the signal's name is in what it wrapped.
        err.print(f"stopped ({str(stop.__cause__ or stop) or 'SIGINT'}); what this command had started is gone")
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        sys.exit(FAILED)
