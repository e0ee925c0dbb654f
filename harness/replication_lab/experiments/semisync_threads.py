"""Do clients share a round trip of semi-sync whose commits are durable, 78 ms away?"""

from replication_lab import Inserts, experiment

experiment(
    topology="semisync",
    engines=("mysql-5.6", "mysql-8.0", "mysql", "mariadb"),
    default_engines=("mysql-5.6", "mysql-8.0", "mariadb"),
    load=Inserts(seconds=3, keeps_samples=False),
)
