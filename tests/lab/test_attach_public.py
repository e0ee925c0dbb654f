"""Are projects as public repositories have them, rebuilt in small form, attached, drilled and as before afterwards?"""

import pytest
from replication_lab.world.docker import engine

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
# The links and the drills of each.
PROJECTS = {
    "wordpress": (["wordpress:db-master", "db-slave:db-master"], ["cut-link", "cut-replication"]),
}


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the application of the projects, and the servers that stand for the vendors'."""
    attaching.build()


def everything(name: str) -> dict[str, object]:
    """Return what is compared: each container's settings, its networks and names there, and the project's volumes."""
    found = engine.client().containers.list(
        all=True, filters={"label": f"com.docker.compose.project={name}"}, ignore_removed=True
    )
    networks = {one.name: sorted(one.attrs["NetworkSettings"]["Networks"]) for one in found}
    return {
        "settings": attaching.settings(name),
        "networks": networks,
        "volumes": sorted(attaching.volumes_of(name)),
        "hosts": {
            one.name: (one.attrs["HostConfig"]["ExtraHosts"], one.attrs["HostConfig"]["Memory"]) for one in found
        },
        "ports": {one.name: sorted(one.attrs["HostConfig"]["PortBindings"] or {}) for one in found},
    }


@pytest.mark.parametrize("folder", PROJECTS)
def test_a_public_project_is_attached_drilled_and_restored(command, attach, started, folder):
    """Its containers, networks and volumes are compared, and what its replicas say."""
    links, faults = PROJECTS[folder]
    name = started(folder)
    before = everything(name)
    answer = attach(folder, name, *(part for link in links for part in ("--link", link)), "--rtt", "40ms")

    assert answer.returncode in (0, 3), answer.stderr
    consumer = links[0].partition(":")[0]
    attaching.ask(name, consumer)
    for fault in faults:
        code, said = attaching.drilled(command, name, "--drill", fault)
        assert code == 0 and "HOLDS" in said, said
    attaching.restored(command, folder, name, before["settings"])
    assert everything(name) == before
    attaching.ask(name, consumer)
