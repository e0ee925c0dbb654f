"""A Pacemaker cluster of two machines in a running lab: its status, and its commands (images/vm)."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker.lab import USER, Lab

# As in compose/drbd-ha/resources.crm: the group, and the clone with its copies.
SERVICE, DISK, COPY = "g_mysql", "ms_drbd_mysql", "p_drbd_mysql"
# The last resource of the group; if it has started, all others have.
SERVER = "mysqld"
STARTED, STOPPED, PROMOTED, UNPROMOTED = "Started", "Stopped", "Promoted", "Unpromoted"
POLL_SECONDS = 0.5


class ClusterMember(msgspec.Struct, frozen=True):
    """A machine as the cluster sees it; a lost machine is `unclean` until it is known to be dead."""

    online: bool
    standby: bool
    unclean: bool
    coordinator: bool

    def words(self) -> str:
        state = "lost" if self.unclean else "offline" if not self.online else "standby" if self.standby else "online"
        return f"{state} (coordinator)" if self.coordinator else state


class Resource(msgspec.Struct, frozen=True):
    """One copy of a resource, and the machine that runs it; `part_of` is its group or clone."""

    name: str
    part_of: str
    agent: str
    role: str
    node: str
    failed: bool


class ClusterStatus(msgspec.Struct, frozen=True):
    """The cluster as one machine sees it; `quorum` means that the machine's partition has a quorum."""

    quorum: bool
    members: dict[str, ClusterMember]
    resources: list[Resource]
    failures: list[str]

    def where(self, name: str, role: str) -> str:
        """Return the machine that has a resource in a role, or an empty string."""
        return next((each.node for each in self.resources if each.name == name and each.role == role), "")

    @property
    def serving(self) -> str:
        """The machine whose server has started, or an empty string."""
        return self.where(SERVER, STARTED)

    def who(self) -> str:
        """Return the cluster's members in a line."""
        said = [f"{name} {member.words()}" for name, member in self.members.items()]
        return f"{'quorum' if self.quorum else 'no quorum'}: {', '.join(said) or 'no member is known yet'}"

    def runs(self, node: str) -> str:
        """Return what a machine runs, in a line."""
        mine = [each for each in self.resources if each.node == node]
        clones = [each for each in mine if each.part_of != SERVICE]
        roles = [f"{each.part_of} {each.role}" if each.part_of == DISK else each.part_of for each in clones]
        service = [each.name for each in mine if each.part_of == SERVICE and each.role == STARTED]
        group = [f"{SERVICE} ({' '.join(service)})"] if service else []
        return f"{node} runs {', '.join([*group, *roles]) or 'nothing'}"

    def words(self) -> str:
        """Return all of it in one line."""
        return "; ".join([self.who(), *(self.runs(node) for node in self.members), *self.failures])


def parse_status(text: str) -> ClusterStatus:
    """Return the Status of crm_mon's XML; LabError if it is something else."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise LabError(f"crm_mon printed {text.strip()[:200]!r}", "crm_mon's XML", "./lab logs node1") from error
    coordinator = root.find("./summary/current_dc")
    return ClusterStatus(
        quorum=coordinator is not None and coordinator.get("with_quorum") == "true",
        members={node.get("name", ""): _member(node) for node in root.iterfind("./nodes/node")},
        resources=[each for above in root.iterfind("./resources/*") for each in _resources(above)],
        failures=[_failure(each) for each in root.iterfind("./failures/failure")],
    )


def _is(element: ET.Element, attribute: str) -> bool:
    return element.get(attribute) == "true"


def _member(node: ET.Element) -> ClusterMember:
    return ClusterMember(_is(node, "online"), _is(node, "standby"), _is(node, "unclean"), _is(node, "is_dc"))


def _resources(above: ET.Element) -> list[Resource]:
    """Return the copies under a group or a clone, or the resource itself if it is in neither."""
    name = "" if above.tag == "resource" else above.get("id", "")
    found = [above] if above.tag == "resource" else above.findall("resource")
    return [_resource(each, name) for each in found]


def _resource(found: ET.Element, part_of: str) -> Resource:
    node = found.find("node")
    return Resource(
        name=found.get("id", ""),
        part_of=part_of,
        agent=found.get("resource_agent", ""),
        role=found.get("role", ""),
        node="" if node is None else node.get("name", ""),
        failed=_is(found, "failed"),
    )


def _failure(found: ET.Element) -> str:
    what = (found.get("op_key") or found.get("task") or "").removesuffix("_0")
    return f"{what} on {found.get('node')}: {found.get('exitreason') or found.get('exitstatus')}"


@dataclass(frozen=True)
class PacemakerCluster:
    """The cluster of a lab's machines, queried and controlled through any machine that answers."""

    lab: Lab

    @property
    def nodes(self) -> list[str]:
        return [node.name for node in self.lab.topology.nodes]

    def status(self, node: str = "") -> ClusterStatus:
        """Return the status as a machine sees it, or the first one that answers; LabError if none does."""
        return parse_status(self.tell("status", node=node))

    def address(self) -> str:
        """Return the address at which clients find the service, on either machine."""
        return self.tell("address").strip().partition("/")[0]

    def tell(self, *words: str, node: str = "") -> str:
        """Return the output of a cluster's command in a machine, by default in the first one that answers."""
        errors = []
        # Only a question is repeated at another machine: a command with an effect names its own.
        for asked in [node] if node else self.nodes:
            try:
                return self.lab.node(asked).run("guest", "cluster", *words)
            except LabError as error:
                errors.append(f"{asked}: {error.found}")
        raise LabError(
            f"no machine of {self.lab.name} reports the cluster status: {'; '.join(errors)}",
            "a running machine",
            f"./lab logs {self.nodes[0]} --lab {self.lab.name}",
        )

    def asked(self, statement: str) -> str:
        """Run a statement at the service's address, from the client's container; return the answer."""
        host = f"--host={self.address()}"
        return (
            self.lab.service("client")
            .run("mariadb", "--skip-ssl", host, f"--user={USER}", "--connect-timeout=2", "-N", "-e", statement)
            .strip()
        )

    def server(self) -> str:
        """Return the name of the machine whose server answers the client's container; an empty string if none does."""
        with suppress(LabError):
            return self.asked("SELECT @@hostname")
        return ""

    def fenced(self, nodes: Sequence[str], seen_by: str) -> tuple[bool, str]:
        """Return whether a machine knows that these are off, and the state in words; False if it does not answer.

        Just after a node is lost, Pacemaker still reports its last state. Then it is unclean until it is fenced.
        """
        try:
            status = self.status(seen_by)
        except LabError as error:
            return False, error.found
        members = [status.members[node] for node in nodes]
        return status.quorum and not any(each.online or each.unclean for each in members), status.words()

    def wait_until_served_by(self, *nodes: str) -> str:
        """Wait until one of these machines has the service's address, reports it and has a quorum; return its name.

        A lost machine must first be reset by its watchdog. Then promotion, mount and recovery follow. Wait for as long
        as the state changes.
        """
        return clock.wait_while_moving(
            lambda: self._served_by(nodes),
            f"{' or '.join(nodes)} to run the service",
            every=POLL_SECONDS,
            hint=f"./lab status --lab {self.lab.name}",
        )

    def _served_by(self, nodes: tuple[str, ...]) -> tuple[str, str]:
        leads_to = self.server()
        said = f"the service IP is on {leads_to or 'no node'}"
        with suppress(LabError):
            status = self.status(leads_to)
            said = f"{said}; {status.words()}"
            if leads_to in nodes and status.quorum and status.serving == leads_to:
                return leads_to, said
        return "", said
