"""A fault that another program takes off for a moment and puts on again, each kind by what a person would type."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import requests
from replication_lab.faults.replica_threads import AS_ROWS, TABLE, UNLOGGED

HIDDEN = "/tmp/hidden"


def docker(*command):
    return subprocess.run(["docker", *command], check=True, capture_output=True, text=True).stdout


def ids(lab, services):
    return [str(lab.service(each).container.id) for each in services]


def run(lab, services, *command):
    return [docker("exec", each, *command) for each in ids(lab, services)]


@contextmanager
def alive(lab, spec):
    docker("start", *ids(lab, spec.targets))
    yield
    docker("kill", *ids(lab, spec.targets))


@contextmanager
def host_alive(lab, spec):
    """Start the hosts, then their servers: a container cannot join the network of one that has ended."""
    services = [*(f"{node}-host" for node in spec.targets), *spec.targets]
    docker("start", *ids(lab, services))
    yield
    docker("kill", *ids(lab, services))


@contextmanager
def thawed(lab, spec):
    docker("unpause", *ids(lab, spec.targets))
    yield
    docker("pause", *ids(lab, spec.targets))


@contextmanager
def frozen(lab, spec):
    """Freeze nodes that were restarted and serve: there is nothing to take off."""
    docker("pause", *ids(lab, spec.targets))
    yield
    docker("unpause", *ids(lab, spec.targets))


@contextmanager
def powered(lab, spec):
    disks = [f"{node}-disk1" for node in spec.targets]
    docker("start", *ids(lab, [*disks, *spec.targets]))
    yield
    docker("kill", *ids(lab, [*spec.targets, *disks]))


@contextmanager
def whole(lab, spec):
    """Switch on each link that is cut, or all of them where a fault switches them on and off by itself."""
    proxies = _proxies(lab)
    off = [path for path, proxy in proxies.items() if not proxy["enabled"]] or list(proxies)
    for path in off:
        _ask("POST", path, {"enabled": True})
    yield
    if spec.fault != "flap":
        for path in off:
            _ask("POST", path, {"enabled": False})


@contextmanager
def clear(lab, _spec):
    proxies = {path: proxy["toxics"] for path, proxy in _proxies(lab).items()}
    for path, toxics in proxies.items():
        for toxic in toxics:
            _ask("DELETE", f"{path}/toxics/{toxic['name']}")
    yield
    for path, toxics in proxies.items():
        for toxic in toxics:
            _ask("POST", f"{path}/toxics", toxic)


@contextmanager
def lossless(lab, _spec):
    tables = ("raw", "mangle")
    helper = [name for name in lab.containers if name.startswith("toxiproxy") and name != "toxiproxy"]
    for table in tables:
        run(lab, helper, "bash", "-c", f"iptables-save -t {table} >{HIDDEN}-{table}; iptables -t {table} -F")
    yield
    for table in tables:
        run(lab, helper, "bash", "-c", f"iptables-restore <{HIDDEN}-{table}")


@contextmanager
def let_through(lab, _spec):
    """Delete the rules that keep packets from a service, and set them again."""
    helpers = [name for name in lab.containers if name.endswith("-packets")]
    run(lab, helpers, "bash", "-c", f"iptables-save -t filter >{HIDDEN}; iptables -F")
    yield
    run(lab, helpers, "bash", "-c", f"iptables-restore <{HIDDEN}")


@contextmanager
def managing(lab, spec):
    """Start the programs of a failover manager, and kill them again."""
    programs = [service.name for service in lab.manager.beside(spec.targets)]
    docker("start", *ids(lab, programs))
    yield
    docker("kill", *ids(lab, programs))


def _proxies(lab):
    found = {}
    for link in lab.topology.links:
        address = lab.link(link.name).toxiproxy.address
        for name, proxy in requests.get(f"http://{address}/proxies", timeout=5).json().items():
            found[f"http://{address}/proxies/{name}"] = proxy
    return found


def _ask(method, path, body=None):
    requests.request(method, path, json=body, timeout=5).raise_for_status()


@contextmanager
def on_time(lab, spec):
    run(lab, spec.targets, "sh", "-c", "echo +0 >/run/mysqld/clock")
    yield
    run(lab, spec.targets, "sh", "-c", f"echo {spec.settings['skew']:+d} >/run/mysqld/clock")


@contextmanager
def unlimited_cpu(lab, spec):
    had = _limits(lab, spec, "CpuQuota")
    docker("update", "--cpu-quota", "-1", *had)
    yield
    for container, quota in had.items():
        docker("update", "--cpu-quota", quota, container)


@contextmanager
def unlimited_memory(lab, spec):
    had = _limits(lab, spec, "Memory")
    docker("update", "--memory", "4g", "--memory-swap", "8g", *had)
    yield
    for container, limit in had.items():
        docker("update", "--memory", limit, "--memory-swap", "8g", container)


def _limits(lab, spec, name):
    return {
        each: docker("inspect", "--format", f"{{{{.HostConfig.{name}}}}}", each).strip()
        for each in ids(lab, spec.targets)
    }


def _disks(lab, spec):
    return [name for node in spec.targets for name in lab.containers if name.startswith(f"{node}-disk")]


@contextmanager
def repaired(lab, spec):
    run(lab, _disks(lab, spec), "spindle", "heal")
    yield
    run(lab, _disks(lab, spec), "spindle", "fail")


@contextmanager
def quick(lab, spec):
    run(lab, _disks(lab, spec), "spindle", "set", "write_us=0")
    yield
    run(lab, _disks(lab, spec), "spindle", "set", "write_us=50000")


@contextmanager
def roomy(lab, spec):
    file, hidden = "/var/lib/mysql/.full", "/var/lib/mysql/.hidden"
    run(lab, spec.targets, "sh", "-c", f"echo >{hidden} || mv {file} {hidden}")
    yield
    run(lab, spec.targets, "sh", "-c", f"mv {hidden} {file}")


@contextmanager
def one_primary(lab, spec):
    run(lab, spec.targets, "guest", "resource", "demote")
    yield
    run(lab, spec.targets, "guest", "resource", "promote")


def _by_sql(lab, nodes, *statements):
    """Send statements as another program: by a connection of its own, from outside of the container."""
    for node in nodes:
        with contextlib.closing(lab.node(node).server().another()) as server:
            server.execute(*statements)


def _of_dialect(take_off, put_back):
    """Return what sends the statements of these names in the servers' dialect."""

    @contextmanager
    def sent(lab, spec):
        for names in (take_off, put_back):
            says = lab.node(spec.targets[0]).dialect
            _by_sql(lab, spec.targets, *(getattr(says, name) for name in names))
            if names == take_off:
                yield

    return sent


@contextmanager
def without_error(lab, spec):
    """Restore the row and start the applier; delete and update it once more."""
    says = lab.node(spec.targets[0]).dialect
    _by_sql(lab, spec.targets, UNLOGGED, f"INSERT IGNORE INTO {TABLE} VALUES (1, 0)", says.start_applier)
    yield
    _by_sql(lab, spec.targets, UNLOGGED, f"DELETE FROM {TABLE} WHERE id = 1")
    _by_sql(lab, [lab.topology.source.name], AS_ROWS, f"UPDATE {TABLE} SET changes = changes + 1 WHERE id = 1")


@contextmanager
def without_delay(lab, spec):
    says = lab.node(spec.targets[0]).dialect
    _by_sql(lab, spec.targets, *(each.format(seconds=0) for each in says.delay))
    yield
    _by_sql(lab, spec.targets, *(each.format(seconds=spec.settings["delay"]) for each in says.delay))


@contextmanager
def read_only(lab, spec):
    """Let the node that took over refuse writes for a while."""
    _by_sql(lab, spec.targets, "SET GLOBAL read_only = 1")
    yield
    _by_sql(lab, spec.targets, "SET GLOBAL read_only = 0")


@contextmanager
def without_column(lab, _spec):
    """Drop the new column on the last node, and add it again. A cluster does so on each, and waits for no client."""
    alone = [] if lab.topology.replication == "galera" else [UNLOGGED]
    last = [lab.topology.nodes[-1].name]
    _by_sql(lab, last, *alone, "ALTER TABLE lab.ledger DROP COLUMN note")
    yield
    _by_sql(lab, last, *alone, "ALTER TABLE lab.ledger ADD COLUMN note INT NOT NULL DEFAULT 0")


@contextmanager
def one_writer(lab, spec):
    """Switch a group to a single primary, and back."""
    _by_sql(lab, spec.targets, "SELECT group_replication_switch_to_single_primary_mode()")
    yield
    _by_sql(lab, spec.targets, "SELECT group_replication_switch_to_multi_primary_mode()")


@contextmanager
def unlocked(lab, spec):
    """End the session that holds the lock. No other program can make it live again."""
    server = lab.node(spec.targets[0]).server().another()
    held = server.rows("SELECT ID AS id FROM information_schema.PROCESSLIST WHERE COMMAND = 'Sleep' AND USER = 'root'")
    own = server.value("SELECT CONNECTION_ID()")
    # The lab's other connections make themselves again.
    for row in held:
        if row["id"] != own:
            server.execute(f"KILL {row['id']}")
    server.close()
    yield


class Sabotage(NamedTuple):
    """How a kind of fault is taken off within a block, and what the cause of the verdict must name."""

    within: Callable[..., AbstractContextManager[Iterator[None]]]
    cause: str


# By the fault's name; `packets` is a toxic that the kernel makes.
TAKEN_OFF = {
    "kill": Sabotage(alive, ": start"),
    "stop": Sabotage(alive, ": start"),
    "restart": Sabotage(frozen, ": pause"),
    # Its drill kills the node that has crashed.
    "crash": Sabotage(alive, ": start"),
    "upgrade": Sabotage(frozen, ": pause"),
    "bootstrap": Sabotage(frozen, ": pause"),
    "schema-change": Sabotage(without_column, "the table was not changed on "),
    "multi-primary": Sabotage(one_writer, "the role of "),
    "new-replica": Sabotage(_of_dialect(["stop"], ["start"]), "the new copy on replica did not replicate"),
    "pause": Sabotage(thawed, ": unpause"),
    "power-cut": Sabotage(powered, ": start"),
    "host-kill": Sabotage(host_alive, ": start"),
    "manager-kill": Sabotage(managing, ": start"),
    "manager-cut": Sabotage(let_through, "iptables"),
    "endpoint-cut": Sabotage(let_through, "iptables"),
    "cut": Sabotage(whole, " sent POST /proxies/"),
    "cut-site": Sabotage(whole, " sent POST /proxies/"),
    "lose-site": Sabotage(alive, ": start"),
    "flap": Sabotage(whole, " sent POST /proxies/"),
    "toxic": Sabotage(clear, " sent DELETE /proxies/"),
    "packets": Sabotage(lossless, "iptables"),
    "applier-stop": Sabotage(_of_dialect(["start_applier"], ["stop_applier"]), "the applier ran on "),
    "receiver-stop": Sabotage(_of_dialect(["start_io"], ["stop_io"]), "the receiver ran on "),
    "applier-error": Sabotage(without_error, "the applier ran on "),
    "applier-delay": Sabotage(without_delay, "the delay of "),
    "backup-lock": Sabotage(unlocked, "the session that held the lock had ended on "),
    "switchover": Sabotage(read_only, " refused writes"),
    "clock": Sabotage(on_time, ": command 'sh -c echo +0 >/run/mysqld/clock'"),
    "clock-site": Sabotage(on_time, ": command 'sh -c echo +0 >/run/mysqld/clock'"),
    "cpu": Sabotage(unlimited_cpu, ": update"),
    "memory": Sabotage(unlimited_memory, ": update"),
    "disk-fail": Sabotage(repaired, " for heal"),
    "disk-slow": Sabotage(quick, " for set write_us=0"),
    "disk-full": Sabotage(roomy, ": command 'sh -c "),
    "drbd-disk-fail": Sabotage(repaired, " for heal"),
    "drbd-split-brain": Sabotage(one_primary, "role was Secondary on "),
}
