"""Are projects that use what few projects use attached, drilled and as before, or refused in plain words?

Parts of other files, profiles, networks and volumes of others, a network of another service, several containers of one
server's service, a second file that Compose reads by itself.
"""

import secrets
from contextlib import suppress

import pytest
from docker.errors import NotFound
from replication_lab.world import clock
from replication_lab.world.docker import engine, project

from tests.lab import attaching
from tests.lab.test_attach_public import (
    SLAVE,
    Public,
    all_images,
    attached_drilled_and_restored,
    copied,
    everything,
    written,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
__all__ = ["all_images", "copied"]


@pytest.fixture
def of_others():
    """Make a network and a volume by hand, and return their names; remove them at the end."""
    name = f"school-{secrets.token_hex(3)}"
    network = engine.client().networks.create(name)
    volume = engine.client().volumes.create(name)
    yield name
    network.remove()
    # The end of the project removes each volume that it used.
    with suppress(NotFound):
        volume.remove()


def test_parts_of_another_file_and_a_profile(command, attach, copied, started):
    """Two processes of one part; the service of the profile is not started by anything."""
    public = Public(["web:db", "sidekiq:db"], ["cut-link-web-db", "kill"], "web")
    folder = copied("mastodon")
    attached_drilled_and_restored(command, attach, public, folder, started(folder))


def test_an_included_project_with_a_network_and_a_volume_of_others(command, attach, copied, of_others, started):
    """They stay, and the link is in the internal network of the included file."""
    folder = copied("moodle")
    (folder / ".env").write_text(f"SCHOOL_NETWORK={of_others}\nSCHOOL_VOLUME={of_others}\n")
    public = Public(["moodle:mariadb"], ["cut-link", "kill"], "moodle")
    attached_drilled_and_restored(command, attach, public, folder, started(folder))


def test_a_page_with_links_beside_an_application_in_the_network_of_a_tunnel(command, attach, copied, started):
    """The page can be linked; what has no network of its own is refused before anything changes."""
    folder = copied("phpmyadmin")
    name = started(folder)
    before = everything(name, Public([], [], ""))
    refused = attach(folder, name, "--link", "app:db")

    assert refused.returncode == 2, refused.stderr
    assert everything(name, Public([], [], "")) == before and name not in project.all_labs()
    public = Public(
        ["phpmyadmin:db", "db-replica:db"],
        ["cut-link", "cut-replication"],
        "phpmyadmin",
        asked={"db-replica": SLAVE},
        root="pma-root",
    )
    attached_drilled_and_restored(command, attach, public, folder, name)


def test_a_service_of_several_replicas(command, attach, copied, started):
    """Its source is linked. The lab says that it sees only one of the replicas, so a drill is refused."""
    folder, public = copied("bitnami_mysql"), Public([], [], "app", asked={"mysql-slave": SLAVE}, root="scaled-root")
    name = started(folder)
    rows, before = written(name, public), everything(name, public)
    answer = attach(folder, name, "--link", "app:mysql-master", "--rtt", "40ms")
    code, said = attaching.drilled(command, name, "--drill", "cut-link")

    assert answer.returncode in (0, 3) and "`lab drill` will be refused" in answer.stderr, answer.stderr
    assert "mysql-slave has 2 containers, and the lab asks the first one only" in answer.stderr
    assert code == 2 and "mysql-master has a replica that the lab does not see" in " ".join(said.split()), said
    assert written(name, public) == rows + 1
    attaching.restored(command, folder, name, before["settings"])
    assert written(name, public) == rows + 2 and everything(name, public) == before
    count = ("mariadb", "-uroot", "-pscaled-root", "-Ne", "SELECT COUNT(*) FROM my_database.visits")
    for number in (1, 2):
        copy = f"{name}-mysql-slave-{number}"
        clock.wait_until(lambda at=copy: int(attaching.inside(at, *count)) == rows + 2, f"{copy} to have all rows")


def test_a_second_file_that_compose_reads_by_itself(command, attach, copied, started):
    """With the first one alone it is refused, as the project has what the second one says; the next step has both."""
    folder = copied("drupal")
    name, second = started(folder), str(folder / "docker-compose.override.yml")
    refused = attach(folder, name, "--link", "drupal:mariadb")

    assert refused.returncode == 2 and "the same files in the same order" in refused.stderr, refused.stderr
    assert f"--file {second}" in attaching.next_command(refused.stderr)
    public = Public(["drupal:mariadb"], ["cut-link", "kill"], "drupal")
    attached_drilled_and_restored(command, attach, public, folder, name, "-f", second)
