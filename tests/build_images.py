"""`make test-images`: build the images that `make test` needs and that are missing, all at once."""

from replication_lab.lab import stock
from replication_lab.world.docker import engine

# The engines of tests that are not marked long, and topologies that need more images than a server's.
ENGINES = ("mariadb", "mysql-5.5", "mysql-8.0")
TOPOLOGIES = ("galera", "raid", "drbd-ha")
# Of an endpoint, of clients beside the nodes, of a failover manager, and of an arbitrator.
FURTHER = ("haproxy", "clients", "keepalived", "garbd")


def main() -> None:
    """Build them; stop the Docker engine again if it did not run before."""
    ran = engine.is_running()
    stock.build([*stock.needed(ENGINES, TOPOLOGIES), *FURTHER], "")
    if not ran:
        engine.stop()


if __name__ == "__main__":
    main()
