"""Does a lab run on three Docker engines of one swarm, in one overlay network: a cluster, and replicas apart?"""

import functools
import json

import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images

from tests.lab.conftest import NOISE_IGNORED
from tests.lab.engine_elsewhere import MISSING, engines_together

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"engines in network namespaces need {MISSING}"),
]
# What a swarm gives each of its engines.
OF_SWARM = {"docker_gwbridge", "ingress"}


@pytest.fixture(scope="module")
def swarm(built, command):
    """Yield three engines that the lab has made one swarm; the first, the command's own, has the images."""
    images.ensure(["clients", "sidecar"])
    names = ("mariadb", "toxiproxy", "clients", "sidecar")
    with engines_together(3, *(f"replication-lab/{name}" for name in names)) as found:
        own, others = found[0], found[1:]
        machines = [f"here={own.machine}", *(f"{each.host}={each.machine}" for each in others)]
        joined = command("sites", "join", *machines, "--yes", DOCKER_HOST=own.host)
        assert joined.returncode == 0, joined.stderr
        yield found
        left = command("sites", "leave", "here", *(each.host for each in others), "--yes", DOCKER_HOST=own.host)
        assert left.returncode == 0, left.stderr
        assert all(each.client().info()["Swarm"]["LocalNodeState"] == "inactive" for each in found)


@pytest.fixture
def there(command, swarm):
    """Run a command whose own engine is the first one; at the end nothing of a lab is left on any."""

    def left():
        return [sorted(set(engine.things()) - OF_SWARM) for engine in swarm]

    yield functools.partial(command, DOCKER_HOST=swarm[0].host)
    wait_until(lambda: not any(left()), "nothing to be left", 30, hint=str(left()))


def on(swarm, *nodes, network="overlay"):
    """Return the options that place the second and the third node on the other engines."""
    placed = zip(nodes, swarm[1:], strict=False)
    options = [word for node, engine in placed for word in ("--site", f"{node}={engine.host}")]
    return [*options, *(("--site-network", network) if network else ())]


def test_a_cluster_of_three_sites_comes_up_and_is_proved(there, swarm, name):
    """All nodes are in one Primary component; each link is dialled through the Toxiproxy of the site that dials it."""
    up = there("up", "galera", "--lab", name, *on(swarm, "node2", "node3"))
    status = there("status", "--lab", name, "--json")
    down = there("down", "--lab", name)

    assert up.returncode == 0, up.stdout + up.stderr
    assert up.stderr.count("verified: packets of full size cross link") == 6, up.stderr
    [lab] = json.loads(status.stdout)
    assert [node["site"] for node in lab["nodes"]] == ["", *(engine.host for engine in swarm[1:])]
    assert all("Synced, Primary, sees node1 node2 node3" in node["replication"] for node in lab["nodes"]), lab["nodes"]
    # Calibrated to within 5 % of 85 ms.
    assert all(link["round_trip_ms"] >= 80.75 for link in lab["links"]), lab["links"]
    assert down.returncode == 0, down.stderr


@pytest.mark.parametrize("drill", ["cut-site", "lose-site", "kill-all"])
def test_a_cluster_passes_its_drills_on_three_sites(drill, there, swarm):
    """Its ledger decides what was lost. After the death of all nodes they find the most advanced across the network."""
    drilled = there("drill", "galera", "--drill", drill, *on(swarm, "node2", "node3"), "--json", module=NOISE_IGNORED)

    assert drilled.returncode == 0, drilled.stdout[-4000:] + drilled.stderr


@pytest.fixture
def machines(swarm):
    """Have the images of virtual machines at the command's own engine; the lab brings them to the other ones."""
    images.ensure(["vm", "spindle", "load"])
    swarm[0].load(*(f"replication-lab/{name}" for name in ("vm", "spindle", "load")))


def test_a_disk_is_replicated_between_two_sites_and_its_machines_change_roles(machines, there, swarm, name):
    """Each machine has its disk beside it; what node1 wrote is served by node2 once node1 is on standby."""
    up = there("up", "drbd", "--lab", name, "--toxic", "node1-node2=wan-85ms", *on(swarm, "node2"))
    there("sql", "node1", "--lab", name, "-e", "CREATE TABLE lab.crosses (id INT PRIMARY KEY)")
    promoted = there("standby", "node1", "--lab", name)
    shown = there("sql", "node2", "--lab", name, "-e", "SHOW TABLES IN lab LIKE 'crosses'")
    status = there("status", "--lab", name, "--json")
    there("down", "--lab", name)

    assert up.returncode == 0, up.stdout + up.stderr
    assert "verified: packets of full size cross link node1-node2" in up.stderr
    assert promoted.returncode == 0, promoted.stderr
    assert "crosses" in shown.stdout, shown.stderr
    [lab] = json.loads(status.stdout)
    assert [node["site"] for node in lab["nodes"]] == ["", swarm[1].host]


@pytest.mark.parametrize("drill", ["cut-site", "lose-site"])
def test_a_replicated_disk_passes_its_drills_on_two_sites(drill, machines, there, swarm):
    """The ledger decides what was lost, and at the end both disks are compared."""
    drilled = there("drill", "drbd", "--drill", drill, *on(swarm, "node2"), "--json", module=NOISE_IGNORED)

    assert drilled.returncode == 0, drilled.stdout[-4000:] + drilled.stderr


def test_replicas_on_two_sites_replicate_and_a_failover_leads_across(there, swarm, name):
    """Each dials the Toxiproxy beside it, also after one of them was promoted. That it is one swarm is found."""
    up = there("up", "semisync-3", "--lab", name, *on(swarm, "replica1", "replica2", network=""))
    promoted = there("failover", "replica1", "--lab", name)
    rejoined = there("rejoin", "source", "--lab", name)
    status = there("status", "--lab", name, "--json")
    there("down", "--lab", name)

    assert up.returncode == promoted.returncode == rejoined.returncode == 0, (
        up.stderr + promoted.stderr + rejoined.stderr
    )
    assert "the engines are in one swarm: --site-network overlay" in up.stderr
    [lab] = json.loads(status.stdout)
    assert {link["name"] for link in lab["links"]} == {"replica1-source", "replica1-replica2"}
    assert all(link["round_trip_ms"] >= 5 for link in lab["links"]), lab["links"]


def test_an_encrypted_network_carries_the_lab_or_says_what_the_kernel_lacks(there, swarm, name):
    """Its packets need ESP with AES in GCM. Without that nothing crosses, and nothing is left."""
    up = there("up", "async", "--lab", name, *on(swarm, "replica", network="encrypted"))
    there("down", "--lab", name)
    print(up.stderr)

    if up.returncode == 0:
        assert "verified: packets of full size cross link source-replica" in up.stderr
    else:
        assert "the kernel of each site with ESP" in up.stderr, up.stderr


def test_engines_that_are_not_in_one_swarm_are_refused(command, swarm, name):
    """The command's usual engine is in none."""
    refused = command("up", "async", "--lab", name, "--site", f"replica={swarm[1].host}", "--site-network", "overlay")

    assert refused.returncode == 2 and "none of the sites is a manager of a swarm" in refused.stderr, refused.stderr
