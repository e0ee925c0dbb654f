"""mysqlslap, called mariadb-slap by MariaDB: one client sends one statement many times in a row."""

from dataclasses import dataclass

from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.measuring import PlainOutcome
from replication_lab.world.docker.lab import Lab

SOCKET = "/run/mysqld/mysqld.sock"
COMMON = "mariadb-slap"


@dataclass(frozen=True)
class Slap:
    """A statement sent `queries` times in a row to the source, in `iterations` such rows.

    The client is the load container's, the same for every server; `own` names one in the server's own image instead,
    which connects by the socket.
    """

    statement: str
    queries: int = 20
    iterations: int = 3
    own: str = ""

    def run(self, lab: Lab, _seed: int) -> PlainOutcome:
        """Run the statements, each a transaction that changes nothing; LabError if one failed.

        The figures are the duration of a row of statements in ms: the average over the iterations, the fastest and the
        slowest one. Nothing is random, so the seed is not used.
        """
        node = lab.topology.source.name
        user, password = lab.application(node)
        # Not an argument, which every user of the host can read.
        environment = {"MYSQL_PWD": password}
        service = lab.service(node if self.own else "load")
        return self._parse(service.run(*self._command(node, user), environment=environment))

    def _command(self, node: str, user: str) -> list[str]:
        return [
            self.own or COMMON,
            "--no-defaults",
            # MariaDB's current client requires TLS, which would be measured too; MySQL's does not.
            *(["--skip-ssl"] if (self.own or COMMON) == COMMON else []),
            *([f"--socket={SOCKET}"] if self.own else [f"--host={node}"]),
            f"--user={user}",
            "--create-schema=lab",
            "--no-drop",
            "--concurrency=1",
            f"--iterations={self.iterations}",
            f"--number-of-queries={self.queries}",
            f"--query={self.statement}",
            "--csv",
        ]

    def _parse(self, printed: str) -> PlainOutcome:
        """Return the times in a line such as `,mixed,1.803,1.791,1.826,1,20`: average, least and most in seconds."""
        fields = printed.strip().rpartition("\n")[2].split(",")
        try:
            average, least, most = (float(each) * 1000 for each in fields[2:5])
        except ValueError as error:
            raise LabError(
                f"mysqlslap printed no timings: {printed[-300:]!r}",
                "one line each for average, minimum and maximum",
                "./lab status",
            ) from error
        figures = {"average_ms": average, "min_ms": least, "max_ms": most}
        return PlainOutcome(self.queries * self.iterations, figures)
