"""How a Compose project that the lab did not write can be attached, read from its files, containers and servers."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replication_lab.attach import as_before, checks, compose_project, survival, writable
from replication_lab.attach.checks import AskedLink
from replication_lab.attach.compose_project import ComposeProject
from replication_lab.attach.recognised import Recognised, SourceAt, outside, recognised
from replication_lab.attach.server_names import refuse_undirectable, server_at
from replication_lab.attach.servers import ServersOfProject
from replication_lab.lab import up
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import AttachedLink, Attachment, ComposeCall, Consumer
from replication_lab.world.docker import attachments, compose_call, project
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.attached_servers import said_in
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.mysql.accounts import Account
from replication_lab.world.mysql.replica import Replica, ReplicaStatus
from replication_lab.world.mysql.server import Server


@dataclass(frozen=True)
class AskedAttachment:
    """What the user gave: the options of Compose, links, accounts by node, the endpoint, SERVICE:PORT, the manager."""

    links: Sequence[AskedLink]
    files: Sequence[str] = ()
    project: str = ""
    env_files: Sequence[str] = ()
    profiles: Sequence[str] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    endpoint: str = ""
    manager: str = ""

    @property
    def options(self) -> list[str]:
        return ComposeCall(self.project, list(self.files), "", list(self.env_files), list(self.profiles)).options


@dataclass(frozen=True)
class AttachPlan:
    """An attachment that nothing speaks against, before anything has changed; `no_drills` is why drills are refused."""

    attached: Attachment
    linked: dict[str, list[str]]
    kept: attachments.KeptAttachment
    remarks: list[str]
    no_drills: str = ""


def plan(asked: AskedAttachment) -> AttachPlan:
    """Return how the links can be attached; LabError, and nothing changed, if one of them cannot."""
    checks.check_asked(asked.links)
    for file in (*asked.files, *asked.env_files):
        if not Path(file).is_file():
            raise LabError(f"{file} is not a file", "a file of the Compose project", "./lab attach --help")
    docker_engine.ensure()
    up.tidy(lambda _: None)
    name = compose_call.document(asked.options)["name"]
    containers = compose_call.containers(name)
    lab = project.all_labs().get(name)
    if lab is not None and not isinstance(lab, AttachedLab):
        raise LabError(f"{name} is already a lab", "a project that the lab did not start", f"./lab status --lab {name}")
    checks.check_not_attached(name, containers)
    call = _call(asked, name, containers)
    found = compose_project.read(call, containers)
    checks.check_project(found)
    for link in asked.links:
        checks.check_link(found, link)
    checks.check_endpoint(found, asked.endpoint)
    if asked.manager:
        checks.check_beside(found, f"--manager {asked.manager}", asked.manager, "the service of a failover manager")
    return _plan(asked, call, found, containers)


def _call(asked: AskedAttachment, name: str, containers: Mapping[str, Sequence[Container]]) -> ComposeCall:
    """Return how Compose is called later: by the files that the running containers were started from."""
    services = [end for link in asked.links for end in (link.source, link.target)]
    started_from, folder = compose_project.files_of(containers, services)
    files = [os.path.abspath(file) for file in asked.files] or started_from
    if not files:
        raise LabError(f"{name} does not run", "a running project", "docker compose up --detach --wait")
    if started_from and [os.path.realpath(each) for each in files] != [os.path.realpath(each) for each in started_from]:
        raise LabError(
            f"{name} was started from {', '.join(started_from)}",
            "the same files in the same order",
            ComposeCall(name, started_from, "", list(asked.env_files), list(asked.profiles)).attached_by(asked.links),
        )
    env_files = [os.path.abspath(file) for file in asked.env_files]
    return ComposeCall(name, files, folder or os.path.dirname(files[0]), env_files, list(asked.profiles))


def _plan(
    asked: AskedAttachment, call: ComposeCall, found: ComposeProject, containers: Mapping[str, list[Container]]
) -> AttachPlan:
    ports, silent = _ports(asked, found)
    every = _answering(asked, ServersOfProject(found.name, ports, containers, asked.accounts), silent)
    answering = {node: every[name] for node in ports if (name := str(containers[node][0].name)) in every}
    remarks = [f"{node} is left out: {error.found}" for node, error in silent.items()]

    several = ((node, len(containers[node])) for node in answering if len(containers[node]) > 1)
    remarks += [
        f"{node} has {count} containers: each is checked before and after, and `lab status` shows the first one"
        for node, count in several
    ]

    def resolved(service: str, name: str) -> str:
        return next(iter(said_in(containers[service][0], "getent", "hosts", name).split()), "")

    def source_at(replica: str, at: ReplicaStatus) -> str | None:
        return server_at(found, replica, at, resolved)

    set_of = _recognise(asked, found, answering, source_at, remarks)
    links = [_link(found, each, set_of) for each in asked.links]
    _check_links(call, links)
    consumers = list(dict.fromkeys(link.consumer for link in links))
    for each in consumers:
        checks.check_consumer(found, each)
        for container in containers[each]:
            if error := silent.get(str(container.name), silent.get(each)):
                raise LabError(
                    f"a link from {each} would recreate its server, and the lab cannot ask it where its data are: "
                    f"{error.found}",
                    error.expected,
                    error.next_step,
                )
            if server := every.get(str(container.name)):
                survival.check(found, each, server, container)
                _check_log_names(each, server, container)
    counts = {each: len(containers[each]) for each in consumers}
    checks.check_unchanged(found, compose_call.would_change(call, counts, containers))
    hosts = {node: owner for node in set_of.roles if (owner := found.network_owner(node)) and owner != node}
    proxies = [asked.endpoint.rpartition(":")[0]] if asked.endpoint else []
    behind_doors = [*(hosts.get(node, node) for node in set_of.roles), *proxies]
    attachment = Attachment(
        compose=call,
        links=links,
        consumers=[_consumer(found, containers, each, consumers) for each in consumers],
        nodes=dict(set_of.roles),
        ports={node: ports[node] for node in set_of.roles} | {link.server: link.port for link in links},
        images={node: str(containers[node][0].attrs["Config"]["Image"]) for node in set_of.roles},
        doors=sorted({network for each in behind_doors for network in found.networks(each)}),
        replication=set_of.replication,
        follows={name: source for name, source in set_of.follows.items()},
        internal=found.internal,
        hosts=hosts,
        servers={
            str(one.name): as_before.look(
                every[one.name], ports[node], one, answering.get(set_of.follows.get(node, ""))
            )
            for node in ports
            for one in containers[node]
            if one.name in every
        },
        endpoint=asked.endpoint,
        manager=asked.manager,
    )
    kept = attachments.KeptAttachment(
        compose_call.used_variables(call.options),
        {node: (account.user, account.password) for node, account in asked.accounts.items()},
    )
    remarks += _by_id(found, consumers)
    linked = {each: found.links(each) for each in consumers}
    return AttachPlan(attachment, linked, kept, remarks, _no_drills(attachment, answering))


def _ports(asked: AskedAttachment, found: ComposeProject) -> tuple[dict[str, int], dict[str, LabError]]:
    """Return the port of each server, and why those of others are unknown; LabError if a link leads to one of them."""
    databases = found.databases()
    for node in asked.accounts:
        if node not in databases:
            raise LabError(
                f"--dsn {node}=…: {node} is not a database server of {found.name}",
                ", ".join(databases),
                "./lab attach --help",
            )
    ports = {link.target: link.port for link in asked.links if link.port}
    silent: dict[str, LabError] = {}
    for node in databases:
        try:
            checks.check_reachable(found, node)
            ports[node] = ports.get(node) or found.port(node)
        except LabError as error:
            _note_silent(asked, node, error, silent)
    return ports, silent


def _answering(asked: AskedAttachment, found: ServersOfProject, silent: dict[str, LabError]) -> dict[str, Server]:
    """Return the servers that accept an account, by the names of their containers; `silent` gets why others do not.

    LabError if a link leads to such a server.
    """
    answering = {}
    for node, container in [(each, one) for each in found.ports for one in found.containers[each]]:
        try:
            answering[str(container.name)] = found.of(node, container).started(node)
        except LabError as error:
            _note_silent(asked, found.called(node, container), error, silent)
    return answering


def _note_silent(asked: AskedAttachment, node: str, error: LabError, silent: dict[str, LabError]) -> None:
    if any(link.target == node for link in asked.links):
        raise error
    silent[node] = error


def _recognise(
    asked: AskedAttachment,
    found: ComposeProject,
    answering: Mapping[str, Server],
    source_at: SourceAt,
    remarks: list[str],
) -> Recognised:
    set_of = recognised(answering, source_at, asked.links[0].target)
    for node, host in outside(answering, source_at).items():
        remarks.append(
            f"{node} replicates from {host}, which is not a service of {found.name}: the lab does not observe it"
        )
    for link in asked.links:
        if link.target not in set_of.roles:
            raise LabError(
                f"{link.target} does not replicate with {asked.links[0].target}, but all links of an attached project "
                "must lead to servers that replicate with each other",
                f"links to {', '.join(set_of.roles)}",
                found.call.attached_by(each for each in asked.links if each is not link),
            )
    return set_of


def _no_drills(attached: Attachment, answering: Mapping[str, Server]) -> str:
    """Return why drills on the project will be refused; an empty string if nothing speaks against them now."""
    writer = next((node for node, role in attached.nodes.items() if role == "source"), "")
    members = {node: answering[node] for node in attached.nodes}
    try:
        writable.refuse_unfit(members, writer, attached.follows, attached.compose.project)
    except LabError as error:
        return error.found
    return ""


def _link(found: ComposeProject, asked: AskedLink, set_of: Recognised) -> AttachedLink:
    """Return a link with its consumer: between two servers that is the replica, whichever end it was given as."""
    source, target = asked.source, asked.target
    if set_of.follows.get(source) == target:
        source, target = target, source
    is_replication = set_of.follows.get(target) == source
    consumer, server = (target, source) if is_replication else (source, target)
    port = asked.port or found.port(server)
    if is_replication:
        refuse_undirectable(found, consumer, server, set_of.dialled[consumer], port)
    elif {source, target} <= set(set_of.roles):
        raise _not_between(source, target, set_of)
    names = found.names(server, consumer)
    if is_replication and set_of.dialled[consumer][0] not in names:
        names.append(set_of.dialled[consumer][0])
    shared = sorted(set(found.networks(consumer)) & set(found.networks(server)))
    return AttachedLink(consumer, server, source, target, port, names, shared)


def _check_log_names(node: str, server: Server, container: Container) -> None:
    """Refuse a server with logs that have its container's own host name: a recreated container does not find them."""
    hostname = str(container.attrs["Config"]["Hostname"])
    if not hostname or not str(container.id).startswith(hostname):
        # A host name of the project's stays.
        return
    relay_logs = {
        f"relay log{f' of {channel}' if channel else ''}": str(row.get("Relay_Log_File", ""))
        for channel, row in Replica(server).channel_rows().items()
    }
    names = {**relay_logs, **server.settings("relay_log_basename", "log_bin_basename")}
    for what, name in names.items():
        if hostname in name:
            raise LabError(
                f"{node} names its logs after its container ({what}: {name}), and would not find them in a recreated "
                "container: it would stop replicating",
                "names that stay, such as relay-log = relay in its my.cnf, or a hostname in the Compose file",
                f"set that for {node}, let it replicate from the beginning, then repeat this command",
            )


def _not_between(source: str, target: str, set_of: Recognised) -> LabError:
    if set_of.is_cluster:
        return LabError(
            f"{source} and {target} are members of one cluster, whose members reach each other by their addresses: a "
            "link between them would carry no traffic",
            "a link from an application to a member; conditions between members are for a lab of the lab's own",
            f"./lab up {set_of.replication}",
        )
    return LabError(
        f"{source} and {target} are servers, and neither replicates from the other",
        "a link from an application, or from a source to its replica",
        "./lab attach --help",
    )


def _check_links(call: ComposeCall, links: Sequence[AttachedLink]) -> None:
    for link in links:
        if [each.name for each in links].count(link.name) > 1:
            raise LabError(
                f"--link {link.source}:{link.target} is given in both directions, which is the same link",
                "each link once",
                call.attached_by(f"{each.source}:{each.target}" for each in {one.name: one for one in links}.values()),
            )


def _consumer(
    found: ComposeProject, containers: Mapping[str, list[Container]], service: str, consumers: Sequence[str]
) -> Consumer:
    running = containers[service]
    # Compose's hash of a service has the ID of the container that its volumes come from.
    has_new_id = set(found.volumes_from(service)) & set(consumers)
    config_hash = "" if has_new_id else found.containers(service)[0].config_hash
    unnamed = {name: folder for one in running for name, folder in compose_project.unnamed_volumes(one).items()}
    return Consumer(service, len(running), config_hash, tuple(map(compose_call.settings, running)), unnamed)


def _by_id(found: ComposeProject, consumers: Sequence[str]) -> Iterator[str]:
    """Yield what Compose will do to services that name a recreated container by its ID."""
    for other in sorted({*found.document.get("services", {})} - {*consumers}):
        if owners := sorted(set(found.volumes_from(other)) & set(consumers)):
            yield (
                f"{other} has the volumes of {', '.join(owners)} by volumes_from: it keeps them, and the next "
                "`docker compose up` recreates it"
            )


def warnings(found: AttachPlan) -> list[str]:
    """Return what the user has to know before the consumers are recreated."""
    said = [*found.remarks, *([f"`lab drill` will be refused: {found.no_drills}"] if found.no_drills else [])]
    for consumer in found.attached.consumers:
        many = f"{consumer.count} containers of " if consumer.count > 1 else ""
        what = "its server restarts" if consumer.service in found.attached.nodes else "its connections end"
        said.append(
            f"{many}{consumer.service} will be recreated, now and at `lab detach`: {what}; volumes, networks and fixed "
            "ports stay; what it wrote outside its volumes is lost"
        )
        if consumer.unnamed:
            said.append(
                f"{consumer.service} has {', '.join(sorted(set(consumer.unnamed.values())))} on a volume without a "
                "name: `docker compose down --volumes` will no longer remove it. `lab detach` prints its name"
            )
    return said
