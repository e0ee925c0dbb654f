"""The command line of sysbench, common to all its scripts."""

from collections.abc import Sequence

from replication_lab.world.docker.lab import Lab


def command(lab: Lab, script: str, nodes: Sequence[str], user: str, clients: int) -> list[str]:
    """Return a command of sysbench for the load container; a script's own options and its verb come after it."""
    return [
        "sysbench",
        script,
        "--db-driver=mysql",
        f"--mysql-host={','.join(nodes)}",
        f"--mysql-user={user}",
        f"--mysql-password={lab.password}",
        "--mysql-db=lab",
        f"--threads={clients}",
    ]
