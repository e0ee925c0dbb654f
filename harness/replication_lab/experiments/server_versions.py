"""How many inserts/s do one client and 64 clients make on each version of MySQL and MariaDB?"""

from replication_lab import Inserts, Lab, experiment

LOAD = Inserts(seconds=1, keeps_samples=False)


def prepare(lab: Lab) -> None:
    """Give the server one half of the CPUs and its clients the other; create the table and the script."""
    lab.pin_cpus(("server",), ("load",))
    LOAD.prepare(lab)


experiment(
    topology="single",
    default_engines=(
        "mysql-5.5",
        "mysql-5.6",
        "mysql-5.7",
        "mysql-8.0",
        "mysql",
        "mariadb-10.1",
        "mariadb-10.11",
        "mariadb",
    ),
    side_by_side=True,
    load=LOAD,
    prepare=prepare,
)
