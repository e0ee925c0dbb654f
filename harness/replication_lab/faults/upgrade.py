"""Another version of a node's server on the same data: an upgrade, or the way back. It stays when the step ends."""

from collections.abc import Sequence

from replication_lab import replication
from replication_lab.faults._nodes import START_SECONDS, OnNodes
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import has_ended
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.drill.drill import UPGRADE
from replication_lab.model.drill.fault import Need, Setting
from replication_lab.model.lab.server_version import parse_version
from replication_lab.replication.fence import FENCES, ROLE
from replication_lab.world import clock, requests_made
from replication_lab.world.docker import images, servers
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.project import exchange

# MariaDB changes its system tables by this program only; MySQL does so at its start since 8.0.16.
SYSTEM_TABLES = "mariadb-upgrade"
# What the lab has told a node since its start: whether it takes writes. A promoted replica must not refuse them, and
# the source before it has to.
STATE = (ROLE, *FENCES)


def _check_to(where: str, engine: str) -> None:
    if not engine:
        raise TO.refusal(where, UPGRADE, engine, "an engine, as of `lab list engines`")
    servers.named(engine)


TO = Setting("to", "", "the engine {!r}", _check_to)
MAY_DIFFER = Need(
    "nodes whose servers may differ",
    lambda topology, targets: (
        replication.kind_of(topology).replicates_between_versions and not set(targets) & set(topology.storage)
    ),
    "{fault} in {topology}, whose nodes all run one version",
    "a source and replicas, or a Galera cluster; without emulated disks",
)


@fault(
    UPGRADE,
    does="the node's server is stopped, and the server of another engine, `to`, starts on the same data; it stays "
    "there. An older engine is the way back. If a server does not start on these data, that is a finding, and the old "
    "one is started again",
    proof="the server reports the version of its engine; after recovery: the node serves",
    settings=(TO,),
    needs=(MAY_DIFFER,),
    ends_servers=True,
)
class Upgrade(OnNodes):
    """Nodes that get another server, one after another. It does not undo anything: the way back is a step of its own.

    A node whose data the other server refuses runs its old one again.
    """

    def __init__(self, lab: Lab, nodes: Sequence[str], to: str):
        super().__init__(lab, nodes)
        if isinstance(lab, AttachedLab):
            raise LabError(
                f"{lab.name} is an attached project: its images are not changed",
                "a fault of its nodes or links, such as restart",
                "./lab drill",
            )
        images.ensure(servers.own_images([to]))
        self._to = to
        # Why a server of that engine did not start on a node's data, in its own words; empty if it did.
        self.refusals: dict[str, str] = {}
        self._before = {node: lab.servers_of_nodes[node] for node in nodes}

    def inject(self) -> None:
        for node in self.nodes:
            self._exchange(node)

    def _exchange(self, node: str) -> None:
        self._run(node, self._to)
        self.refusals[node] = self._why_ended(node)
        if self.refusals[node]:
            before = self._before[node]
            self._run(node, before)
            if why := self._why_ended(node):
                raise LabError(
                    f"{node} refused {self._to}, and does not start with {before} either: {why}",
                    "its old server on its old data",
                    f"./lab logs {node} --lab {self.lab.name}",
                )
        self._renew_system_tables(node)

    def _run(self, node: str, engine: str) -> None:
        """Start a node with another server, and wait until it serves or has ended."""
        exchange(self.lab, node, engine, STATE)
        kind = replication.of(self.lab)
        clock.wait_until(
            lambda: (
                has_ended(self.lab.node(node))
                or (kind.soon(kind.answers, node) and kind.soon(kind.hindrance, node) == "")
            ),
            f"{node} to serve with {engine}",
            START_SECONDS,
            every=0.1,
        )

    def _why_ended(self, node: str) -> str:
        """Return the first error in the log of a server that has ended; an empty string if it runs."""
        if not has_ended(self.lab.node(node)):
            return ""
        lines = self.lab.node(node).logs("all").splitlines()
        return next((line for line in lines if "[ERROR]" in line), lines[-1] if lines else "it wrote no log")

    def _renew_system_tables(self, node: str) -> None:
        has_program = self.lab.node(node).run("sh", "-c", f"command -v {SYSTEM_TABLES} || true").strip()
        if has_program and parse_version(self.lab.node(node).server().version()).family == "mariadb":
            user, password = self.lab.administrator(node)
            words = (SYSTEM_TABLES, "--skip-ssl", f"--user={user}", "--silent")
            with requests_made.noted(requests_made.DEFINES, node):
                self.lab.node(node).run(*words, environment={"MYSQL_PWD": password})

    def acts(self, node: str) -> Proof:
        runs = self._before[node] if self.refusals.get(node) else self._to
        wanted = servers.version_of(servers.image_of(runs))
        found = parse_version(self.lab.node(node).server().version())
        said = f", after {self._to} did not start: {why}" if (why := self.refusals.get(node)) else ""
        return Proof(what=f"{node} runs {runs}{said}", expected=str(wanted), found=str(found), ok=found == wanted)
