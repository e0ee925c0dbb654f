"""Virtual machines and their disks, made for a module of tests."""

import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pymysql
from replication_lab.model.lab.disk import Limits
from replication_lab.world.disks.spindle import Spindle, arguments
from replication_lab.world.machines import vm

from tests.images.conftest import LABEL, build, remove_container
from tests.images.guest import Guest, settings
from tests.images.nbd import Nbd

SPINDLE, VM = "replication-lab/spindle", "replication-lab/vm"
MIB = 1 << 20
# Kept by md at the begin of a member.
METADATA = 2 * MIB
CACHED = Limits(write_cache=True)
PASSWORD = "vm-test"


class Yard:
    """Machines and their disks on a network of their own, all of it taken away at the end."""

    def __init__(self, client):
        self.client = client
        self.name = f"replication-lab-test-{secrets.token_hex(4)}"
        self.network = client.networks.create(self.name, labels={LABEL: "1"})
        self._made = []

    def disk(self, limits=CACHED, size=192 * MIB):
        self._made.append(
            self.client.containers.run(
                SPINDLE,
                arguments(limits, size),
                name=f"{self.name}-{len(self._made)}",
                network=self.name,
                detach=True,
                cap_drop=["ALL"],
                labels={LABEL: "1"},
                ports={"10809/tcp": ("127.0.0.1", None)},
            )
        )
        return Spindle(self._made[-1])

    def machine(self, launcher, disks=(), array=None, server=True, flags=(), **environment):
        hosts = [disk.container.name for disk in disks]
        environment = {**settings(hosts, array, server), "MYSQL_ROOT_PASSWORD": PASSWORD, **environment}
        own = {
            "command": list(flags),
            "labels": {LABEL: "1"},
            "network": self.name,
            "ports": {"3306/tcp": ("127.0.0.1", None)},
        }
        wanted = vm.container(f"{self.name}-{len(self._made)}", launcher, environment) | own
        self._made.append(self.client.containers.run(detach=True, **wanted))
        return Guest(self._made[-1])

    def clear(self):
        with ThreadPoolExecutor() as together:
            list(together.map(remove_container, self._made))
        self.network.remove()


class Pair:
    """One launcher's two machines: `node` with MariaDB on RAID1, `bare` with two unused disks."""

    def __init__(self, yard, launcher):
        self.launcher = launcher
        self.disks = [yard.disk(), yard.disk()]
        self.bare_disks = [yard.disk(size=64 * MIB), yard.disk(size=64 * MIB)]
        self.node = yard.machine(
            launcher, self.disks, "raid1", flags=["--server-id=7", "--innodb-buffer-pool-size=32M"]
        )
        self.bare = yard.machine(launcher, self.bare_disks, server=False)


@contextmanager
def opened_yard(client):
    """Build the images, yield a yard, and take everything in it away."""
    for image in (SPINDLE, VM):
        build(image)
    yard = Yard(client)
    try:
        yield yard
    finally:
        yard.clear()


def ask(node, statement):
    """Return the rows of a statement, from the machine's published port as any client would."""
    node.container.reload()
    port = int(node.container.ports["3306/tcp"][0]["HostPort"])
    with pymysql.connect(
        host="127.0.0.1",
        port=port,
        user="root",
        password=PASSWORD,
        database="mysql",
        autocommit=True,
        connect_timeout=5,
        read_timeout=30,
    ) as connection:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


def disk_of(spindle):
    spindle.container.reload()
    return Nbd(("127.0.0.1", int(spindle.container.ports["10809/tcp"][0]["HostPort"])))
