"""Is a Compose project that the lab did not write slow where it was asked to be, and as it was afterwards?"""

import secrets

import pytest
from replication_lab.world.docker import attachments, project

from tests.lab import attaching

SHOP = ("attach", "-f", str(attaching.PROJECTS / "shop" / "docker-compose.yml"))


@pytest.fixture(scope="module", autouse=True)
def images(built):
    """Build the database and the application of the projects."""
    attaching.build()


@pytest.fixture(scope="module")
def shop():
    """Yield the name of a running shop: a vendor-style database, an application, two workers."""
    name = f"shop-{secrets.token_hex(3)}"
    with attaching.running("shop", name):
        yield name


@pytest.fixture
def attach(command):
    """Run `lab attach` on the shop, with the images of the tests."""

    def run(name, *options):
        return command(*SHOP, "-p", name, *options, **attaching.ENVIRONMENT)

    return run


def test_one_service_is_slow_and_the_other_is_not_and_both_are_restored(command, attach, shop):
    """The application's requests take the round trip; the worker still has the database itself; detach undoes all."""
    before = attaching.settings(shop)
    near = attaching.seconds_of_request(f"{shop}-web")
    answer = attach(shop, "--link", "app:db", "--rtt", "150ms", "--yes")

    assert answer.returncode == 0, answer.stderr
    assert "verified: app uses link app-db" in answer.stderr and "override file: " in answer.stderr
    assert attaching.seconds_of_request(f"{shop}-web") > near + 0.1
    database = attaching.inside(f"{shop}-db-1", "hostname", "-i").split()[0]
    assert attaching.inside(f"{shop}-worker-1", "getent", "hosts", "db").split()[0] == database
    assert attaching.inside(f"{shop}-web", "getent", "hosts", "db").split()[0] != database
    link = attaching.described(command("status", "--json", "--lab", shop).stdout)["app-db"]
    assert link["toxics"] == ["150ms"] and link["use"].startswith("connections of app so far: ")
    lossy = command("link", "set", "app-db", "150ms+loss=5%", "--lab", shop, "--json")
    assert lossy.returncode == 0 and "5 %)" in lossy.stdout, lossy.stdout + lossy.stderr
    assert attaching.seconds_of_request(f"{shop}-web") > near + 0.1
    # Nothing of the caller's environment is needed: what the files use was kept.
    ended = command("detach", "--lab", shop)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert attaching.settings(shop) == before
    assert shop not in attachments.containers() and shop not in project.all_labs()
    assert attaching.changed_by_up("shop", shop) == []
