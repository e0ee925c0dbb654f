"""Does AFTER_COMMIT keep up with AFTER_SYNC where many clients commit at once on a LAN?"""

from replication_lab import Inserts, experiment

experiment(
    topology="semisync",
    engines=("mariadb-10.11", "mariadb", "mysql-8.0", "mysql"),
    default_engines=("mariadb-10.11", "mariadb", "mysql-8.0"),
    load=Inserts(seconds=3, keeps_samples=False),
)
