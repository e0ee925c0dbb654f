"""The options that several commands share; their texts are in commands.toml."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.core import ParameterSource

from replication_lab.cli import names
from replication_lab.cli.console import CSV, tell
from replication_lab.cli.files import pairs
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import NOISE, WAIT
from replication_lab.model.core.quantity import COUNT, DURATION, WrittenQuantity
from replication_lab.model.lab.server_name import by_node, lab_text, text_of_nodes
from replication_lab.model.lab.site import (
    ADDRESS_OPTION,
    NETWORK_OPTION,
    NETWORKS,
    OPTION,
    OVERLAY,
    PORTS,
    Site,
    placed,
    published_at,
)
from replication_lab.model.lab.spread_load import ADDRESS_OPTION as LOAD_ADDRESS
from replication_lab.model.lab.spread_load import EXAMPLE, LOAD_OPTION, SpreadLoad
from replication_lab.model.lab.storage import AUTO
from replication_lab.model.lab.topology import Topology
from replication_lab.world import catalogue
from replication_lab.world.docker import beside_nodes, engine, swarm
from replication_lab.world.docker import sites as running_sites

# The command's own engine.
HERE = "here"
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def all_of(*parameters: Decorator) -> Decorator:
    """Return what adds these arguments and options to a command, in this order."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        for parameter in reversed(parameters):
            command = parameter(command)
        return command

    return added


def is_given(name: str) -> bool:
    """Return whether the user gave this option of the command that runs; False for its default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


class Written(click.ParamType):
    """A duration, rate or count as the user writes it; the command gets the number, in seconds or a second."""

    name = "quantity"

    def __init__(self, quantity: WrittenQuantity, low: float = 0, high: float = math.inf):
        self._quantity, self._low, self._high = quantity, low, high

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float | int:
        """Return the number; LabError, with the option's longest name, for a text that is none."""
        if not isinstance(value, str):
            return value
        what = max(param.opts, key=len) if param else self.name
        try:
            found = self._quantity.parse(value, what, self._low, self._high)
        except LabError as error:
            error.next_step = f"./{context.command_path} --help" if context else ""
            raise
        return int(found) if self._quantity.is_whole else found


def of_duration(default: str | None, low: float = 0, high: float = math.inf) -> Decorator:
    """Return the option --duration; the command gets seconds."""
    kind = Written(DURATION, low, high)
    return click.option("--duration", "-d", "seconds", type=kind, default=default, show_default=True, metavar="TIME")


def of_runs(default: int | None, name: str, low: int = 1, high: float = math.inf) -> Decorator:
    """Return the option --runs, how often the whole is done."""
    kind = Written(COUNT, low, high)
    return click.option("--runs", "-r", name, type=kind, default=default, show_default=True, metavar="NUMBER")


def of_clients(kind: click.ParamType | None = None, default: int | None = None) -> Decorator:
    """Return the option --clients, also by the names that it has in other load tools."""
    names_ = ("--clients", "-c", "--threads")
    return click.option(*names_, type=kind, default=default, show_default=True, metavar="NUMBER")


of_yes = click.option("--yes", "-y", is_flag=True)
one_node = click.argument("node", shell_complete=names.nodes)
one_run = click.argument("run", default="latest", shell_complete=names.runs)


def _printed_as(*forms: str) -> Decorator:
    """Return the options --json and --output; the command gets whether data are printed, or CSV for a table."""
    form: dict[str, Any] = {"type": click.Choice(forms), "expose_value": False, "is_eager": True}
    return all_of(
        click.option("--json", "json_", is_flag=True, callback=lambda context, _, asked: context.meta["form"] or asked),
        click.option("--output", "-o", **form, callback=lambda context, _, asked: context.meta.update(form=asked)),
    )


as_json, as_rows = _printed_as("json"), _printed_as("json", CSV)
of_lab = click.option("--lab", "name", metavar="NAME", shell_complete=names.labs)
keep_failed = click.option("--keep", is_flag=True)
on_noise = click.option("--noise", type=click.Choice(NOISE), default=WAIT, show_default=True)
clients_from = click.option(
    "--clients-from",
    type=click.Choice(beside_nodes.PLACES),
    expose_value=False,
    callback=lambda _context, _parameter, place: beside_nodes.choose(place),
)
of_servers = all_of(
    click.option("--engine", shell_complete=names.engines, multiple=True, metavar="[NODE=]ENGINE"),
    click.option("--image", multiple=True, metavar="[NODE=]IMAGE"),
)
of_cnf = click.option("--cnf", multiple=True, metavar="[NODE=]FILE")
of_node_storage = all_of(
    click.option("--storage", multiple=True, metavar="[NODE=]LEVEL[:DISKS]"),
    click.option("--disk", multiple=True, metavar="[NODE=]NAME"),
)
of_disks = all_of(
    click.option("--disk", default="ssd", show_default=True, metavar="NAME"),
    click.option("--disks", type=int, default=0),
    click.option("--disk-size", "mib", type=int, default=2048, show_default=True),
    click.option("--backend", default=AUTO, show_default=True, metavar="[auto|md|btrfs|vm]"),
)


def server_of(topology: str, engines: Sequence[str], images: Sequence[str]) -> str:
    """Return the text that names the servers of a topology's nodes: one for all, or that of each."""
    nodes = [node.name for node in catalogue.topology(topology).nodes]
    return text_of_nodes(by_node(lab_text(engines, images), nodes, catalogue.default_engine(topology)))


of_companions = all_of(
    click.option("--endpoint", shell_complete=names.completed_by(catalogue.endpoints), metavar="NAME"),
    click.option("--manager", shell_complete=names.completed_by(catalogue.managers), metavar="NAME"),
)
of_sites = all_of(
    click.option("--site", "sites", multiple=True, metavar="NODE=ENGINE"),
    click.option("--site-address", "site_addresses", multiple=True, metavar="NODE=ADDRESS"),
    click.option("--site-network", type=click.Choice(NETWORKS)),
)


def address_of(topology: Topology, endpoints: tuple[str, ...], addresses: tuple[str, ...]) -> str:
    """Return the address on which a lab on one engine also publishes its servers; empty for one on several sites."""
    return published_at(topology, dict.fromkeys(endpoints, ""), pairs(ADDRESS_OPTION, addresses, "source=10.1.0.1"))


def sites_of(
    topology: Topology, endpoints: tuple[str, ...], addresses: tuple[str, ...], network: str | None
) -> dict[str, Site]:
    """Return the site of each node, where this command also looks for labs; empty for a lab on one engine.

    Without addresses and a network, that of the swarm is taken if all the engines are in one.
    """
    asked = pairs(OPTION, endpoints, "replica=ssh://ops@db2")
    named = {node: engine.endpoint_of(text) for node, text in asked.items()}
    if network is None:
        at = {named.get(node.name, "") for node in topology.nodes}
        is_joined = len(at) > 1 and not addresses and swarm.is_one(at)
        network = OVERLAY if is_joined else PORTS
        if is_joined:
            tell(f"the engines are in one swarm: {NETWORK_OPTION} {OVERLAY}")
    found = placed(topology, named, pairs(ADDRESS_OPTION, addresses, "replica=10.1.0.2"), network)
    running_sites.use(site.endpoint for site in found.values())
    return found


def endpoints_of(text: str) -> tuple[str, ...]:
    """Return the endpoints of a list of engines, each once; that of `here`, the command's own engine, is empty."""
    named = [each for each in text.split(",") if each] or [HERE]
    return tuple(dict.fromkeys("" if each == HERE else engine.endpoint_of(each) for each in named))


def load_of(places: str | None, address: str | None) -> SpreadLoad | None:
    """Return the containers that a load is spread over; None for the one beside the nodes.

    Raise LabError for an empty name, or an address alone.
    """
    named = [each.strip() for each in (places or "").split(",")]
    if places is None and address is None:
        return None
    if not all(named):
        found = f"{LOAD_OPTION} has an empty name" if places is not None else f"{LOAD_ADDRESS} without {LOAD_OPTION}"
        raise LabError(found, "engines separated by commas", f"./lab ask semisync --vary clients=4,16 {EXAMPLE}")
    spread = SpreadLoad(tuple("" if each == HERE else engine.endpoint_of(each) for each in named), address or "")
    running_sites.use(spread.endpoints)
    return spread


def percentage(text: str) -> float:
    """Return the "10%" of --margin as 0.1. Raise LabError for anything else."""
    try:
        return float(text.removesuffix("%").strip()) / 100
    except ValueError:
        raise LabError(f"--margin {text!r} is not a percentage", "a number of percent", "--margin 10%") from None
