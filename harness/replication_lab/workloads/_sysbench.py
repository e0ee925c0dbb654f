"""The command line of sysbench, common to all its scripts.

It has no password, because every user of the host can read it. The load container's environment has it: MYSQL_PWD.
"""

from collections.abc import Sequence

from replication_lab.world.docker.lab import DATABASE, USER


def command(script: str, nodes: Sequence[str], clients: int) -> list[str]:
    """Return a command of sysbench for the load container; a script's own options and its verb come after it."""
    return [
        "sysbench",
        script,
        "--db-driver=mysql",
        f"--mysql-host={','.join(nodes)}",
        f"--mysql-user={USER}",
        f"--mysql-db={DATABASE}",
        f"--threads={clients}",
    ]
