"""A new replica under load: the target's data are removed, and it gets a new copy of its source's."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from replication_lab.faults._nodes import START_SECONDS
from replication_lab.faults._servers import StaysOnServers
from replication_lab.faults.fault import fault
from replication_lab.faults.kill import has_ended
from replication_lab.faults.replica_threads import UNLOGGED
from replication_lab.model.core.errors import LabError
from replication_lab.model.drill.drill import NEW_REPLICA
from replication_lab.model.drill.fault import Need, Setting
from replication_lab.model.lab.storage import DATA
from replication_lab.replication import failover
from replication_lab.world import clock, requests_made
from replication_lab.world.docker import images, site_images, volumes
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Service
from replication_lab.world.mysql.binary_log import BinaryLog
from replication_lab.world.mysql.replica import Replica
from replication_lab.world.mysql.server import SYSTEM_DATABASES, Server

# The longest time for a copy, and for applying what was written meanwhile, in seconds.
COPY_SECONDS, APPLY_SECONDS = 1800, 600
# A database that only the old copy has.
OLD = "lab_old_copy"
BESIDE = "copying"


class CopyWay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to copy, an entry of new_replica.yaml: one of `load`, `fill` and `clone` is set."""

    image: str = ""
    load: str = ""
    gtids: str = ""
    fill: str = ""
    clone: str = ""


@cache
def ways() -> dict[str, dict[str, CopyWay]]:
    """Return the ways to copy, by the family of the servers and by name."""
    return msgspec.yaml.decode(Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, dict[str, CopyWay]])


def _check_by(where: str, by: Any) -> None:
    known = sorted({name for family in ways().values() for name in family})
    if by not in known:
        raise BY.refusal(where, NEW_REPLICA, by, f"one of {', '.join(known)}")


BY = Setting("by", "", "the copy {!r}", _check_by)
LEAF = Need(
    "replicas that no node replicates from",
    lambda topology, targets: (
        topology.replication in ("async", "semisync")
        and set(targets) <= set(topology.sources) - set(topology.sources.values())
    ),
    "{fault} in {topology}, where the target is not a replica, or has replicas",
    "a replica that no node replicates from, as in the topology async",
)


@fault(
    NEW_REPLICA,
    does="the replica's data are removed, and it gets a new copy of its source's: by `dump` (mariadb-dump, mysqldump), "
    "`mydumper`, `backup` (mariadb-backup) or `clone` (MySQL's plugin). Then it replicates, and stays so",
    proof="what only the old copy had is not there, the replica has applied everything that its source had at the end "
    "of the copy, and it replicates, also between the readings; after recovery: the source has all of its transactions",
    settings=(BY,),
    needs=(LEAF,),
    one_target=True,
    ends_servers=True,
)
class NewReplica(StaysOnServers):
    """The replica that gets a new copy. There is nothing to undo."""

    state = "it replicates from a new copy of its source's data"
    afterwards = "a whole copy"

    def __init__(self, lab: Lab, nodes: Sequence[str], by: str):
        super().__init__(lab, nodes)
        (node,) = self.nodes
        self._source = lab.topology.sources[node]
        family = lab.node(node).dialect.family
        known = ways()[family]
        if by not in known:
            raise LabError(
                f"{node} runs {family}, where no copy is made by {by}", f"by: {', '.join(known)}", "./lab drill"
            )
        self._way = known[by]
        self._held, self._beside = "", f"{BESIDE}-{node}"
        if self._way.fill:
            sites = {name: lab.node(name).site for name in (node, self._source)}
            if len(set(sites.values())) > 1:
                raise LabError(
                    f"{node} and {self._source}, whose files are read where they are, are on two sites",
                    "both on one site, or by: dump",
                    "./lab drill",
                )
            (read,), (written,) = volumes.of(lab, self._source), volumes.of(lab, node)
            image = str(lab.node(node).container.attrs["Image"])
            mounted = {read: {"bind": DATA, "mode": "ro"}, written: {"bind": "/copy", "mode": "rw"}}
        elif self._way.image:
            image, mounted = images.PREFIX + self._way.image, {}
            images.ensure([self._way.image])
            site_images.bring(lab.node(node).site, [image])
        else:
            return
        # Two steps of a drill may copy to one replica.
        if self._beside not in lab.containers:
            lab.run_beside(node, self._beside, image, mounted)

    def begin(self, node: str) -> None:
        # Only the node itself knows that it has this database.
        self._alone(self.server(node), f"CREATE DATABASE IF NOT EXISTS {OLD}")
        copy = self._load if self._way.load else self._fill if self._way.fill else self._clone
        with requests_made.noted(requests_made.DEFINES, node):
            copy(node)
        self._disable_events(self.server(node))
        replica = self.replica(node)
        replica.follow(*failover.dialled(self.lab, self._source, node))
        replica.wait_for(BinaryLog(self.server(self._source)).position(), APPLY_SECONDS)

    def _disable_events(self, server: Server) -> None:
        """Disable the events that came with the copy: the replica gets what they do on its source."""
        enabled = server.rows(
            "SELECT EVENT_SCHEMA AS db, EVENT_NAME AS name FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'"
        )
        disabled = server.dialect.disabled_event
        self._alone(server, *(f"ALTER EVENT `{event['db']}`.`{event['name']}` {disabled}" for event in enabled))

    @staticmethod
    def _alone(server: Server, *statements: str) -> None:
        """Run statements that are no transactions of the server's own."""
        session = server.another()
        session.execute(UNLOGGED, *statements)
        session.close()

    def _copied(self, where: Service, command: str, node: str) -> str:
        """Run the command that copies, for as long as a copy may take: a link that carries nothing would not end it."""
        script = f"timeout {COPY_SECONDS} bash -o pipefail -c {shlex.quote(command)}"
        return where.run("bash", "-c", script, environment=self._given(node))

    def _load(self, node: str) -> None:
        """Empty the server and load a dump, which crosses the link to the source."""
        server = self.server(node)
        self.replica(node).stop_following(lose=True)
        databases = [row["Database"] for row in server.rows("SHOW DATABASES")]
        self._alone(server, *(f"DROP DATABASE `{name}`" for name in databases if name not in SYSTEM_DATABASES))
        BinaryLog(server).reset()
        where = self.lab.service(self._beside) if self._way.image else self.lab.node(node)
        printed = self._copied(where, self._way.load, node).strip()
        if gtids := str(server.value(self._way.gtids)) if self._way.gtids else printed:
            BinaryLog(server).reset_gtids_to(gtids)

    def _fill(self, node: str) -> None:
        """Replace the data directory of the stopped server by a copy of the source's files."""
        self.lab.node(node).stop()
        gtids = self._copied(self.lab.service(self._beside), self._way.fill, node).strip()
        self._start(node)
        BinaryLog(self.server(node)).reset_gtids_to(gtids)

    def _clone(self, node: str) -> None:
        """Let the server clone its source across the link; it ends, because nothing in a container restarts it."""
        given = self._given(node)
        host, port = failover.dialled(self.lab, self._source, node)
        statement = self._way.clone.format(host=host, port=port, password=given["MYSQL_PWD"])
        both = (self._source, node)
        has_plugin = "SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'clone'"
        mine = [name for name in both if not self.server(name).rows(has_plugin)]
        for name in mine:
            self.server(name).execute("INSTALL PLUGIN clone SONAME 'mysql_clone.so'")
        self.replica(node).stop_following(lose=True)
        server = self.server(node).answering_within(COPY_SECONDS)
        server.set_global(clone_valid_donor_list=f"{host}:{port}")
        said = "no error"
        try:
            server.execute(statement)
        except LabError as error:
            # That it ends is an error, too. The statement in the message has the password.
            said = str(error.__cause__)
        with suppress(LabError):
            clock.wait_until(lambda: has_ended(self.lab.node(node)), f"{node} to end", START_SECONDS)
        if not has_ended(self.lab.node(node)):
            raise LabError(
                f"{node} did not clone {self._source}: {said}", "a copy", f"./lab logs {node} --lab {self.lab.name}"
            )
        self._start(node)
        for name in mine:
            self.server(name).execute("UNINSTALL PLUGIN clone")

    def _given(self, node: str) -> Mapping[str, str]:
        host, port = failover.dialled(self.lab, self._source, node)
        _, password = self.lab.administrator(node)
        return {"SOURCE": host, "PORT": str(port), "NODE": self._source, "REPLICA": node, "MYSQL_PWD": password}

    def _start(self, node: str) -> None:
        self.lab.node(node).start_again()
        clock.wait_until(self.lab.node(node).answers, f"the server of {node} to answer", START_SECONDS, every=0.1)

    def contrary(self, node: str, server: Server) -> str:
        if server.rows(f"SHOW DATABASES LIKE '{OLD}'"):
            return f"the data of {node} were those of before"
        found = Replica(server).status()
        return "" if found and found.healthy else f"the new copy on {node} did not replicate"

    def recover(self) -> None:
        self._held = BinaryLog(self.server(self.nodes[0])).gtids()
        super().recover()

    def hindrance(self, node: str) -> str:
        errant = failover.beyond(self._held, self.server(self._source))
        return f"it has {errant}, which {self._source} lacks" if errant else super().hindrance(node)

    def close(self) -> None:
        super().close()
        if self._beside in self.lab.containers:
            self.lab.remove_beside(self._beside)
