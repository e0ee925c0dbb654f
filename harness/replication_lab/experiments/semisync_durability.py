"""Is a semi-sync commit without a flush faster than an asynchronous, durable one, and on which disks?"""

from replication_lab import Inserts, experiment

experiment(
    topology="semisync",
    engines=("mariadb", "mysql-8.0", "mysql"),
    default_engines=("mariadb", "mysql-8.0"),
    load=Inserts(seconds=2, keeps_samples=False),
)
