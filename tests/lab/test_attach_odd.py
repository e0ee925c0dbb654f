"""Are projects that use what few projects use attached, drilled and as before, or refused in plain words?

Parts of other files, profiles, networks and volumes of others, a network of another service, several containers of one
server's service, a second file that Compose reads by itself.
"""

import secrets
import subprocess
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


def test_a_monitor_in_the_image_of_a_server_and_limits_in_any_order(command, attach, copied, started):
    """It is a consumer, root's empty password is an account, and another order of limits is no difference."""
    folder, public = copied("monitored"), Public(["app:db", "exporter:db"], [], "app")
    name = started(folder)
    assert "mysqld_exporter" in attaching.inside(f"{name}-exporter-1", "sh", "-c", "cat /proc/[0-9]*/comm")
    attached_drilled_and_restored(command, attach, public, folder, name)


def test_a_service_of_several_replicas(command, attach, copied, started):
    """Its source is linked. Each replica is checked; a drill would see only one, so it is refused."""
    folder, public = copied("bitnami_mysql"), Public([], [], "app", asked={"mysql-slave": SLAVE}, root="scaled-root")
    name = started(folder)
    rows, before = written(name, public), everything(name, public)
    answer = attach(folder, name, "--link", "app:mysql-master", "--rtt", "40ms")
    code, said = attaching.drilled(command, name, "--drill", "cut-link")

    assert answer.returncode in (0, 3) and "`lab drill` will be refused" in answer.stderr, answer.stderr
    assert "mysql-slave has 2 containers: each is checked before and after" in " ".join(answer.stderr.split())
    assert f"{name}-mysql-slave-1, {name}-mysql-slave-2, mysql-master: healthy" in " ".join(answer.stderr.split())
    assert code == 2 and "mysql-master has a replica that the lab does not see" in " ".join(said.split()), said
    assert written(name, public) == rows + 1
    attaching.restored(command, folder, name, before["settings"])
    assert written(name, public) == rows + 2 and everything(name, public) == before
    count = ("mariadb", "-uroot", "-pscaled-root", "-Ne", "SELECT COUNT(*) FROM my_database.visits")
    for number in (1, 2):
        copy = f"{name}-mysql-slave-{number}"
        clock.wait_until(lambda at=copy: int(attaching.inside(at, *count)) == rows + 2, f"{copy} to have all rows")


def test_every_replica_of_a_service_has_to_replicate_as_before(command, attach, copied, started):
    """Sabotage, after `--scale`: one has lost its relay log before, one gets a row meanwhile, two are stopped."""
    folder = copied("bitnami_mysql")
    name = started(folder)
    attaching.compose(folder, name, "up", "--detach", "--wait", "--scale", "mysql-slave=3")
    source, (first, second, third) = f"{name}-mysql-master-1", (f"{name}-mysql-slave-{number}" for number in (1, 2, 3))
    settings = attaching.settings(name)

    def ask(container: str, sql: str) -> str:
        return attaching.inside(container, "mariadb", "-uroot", "-pscaled-root", "-Ee", sql)

    def is_repaired(container: str, printed: str) -> None:
        command_of = attaching.next_command(printed)
        assert command_of.startswith(f"docker exec {container} "), printed
        subprocess.run(command_of, shell=True, check=True, capture_output=True)
        clock.wait_until(lambda: "Slave_SQL_Running: Yes" in ask(container, SLAVE), f"{container} to replicate")

    attaching.inside(second, "sh", "-c", "rm /var/lib/mysql/relay.0*")
    ask(source, "CREATE TABLE my_database.mark (id INT PRIMARY KEY)")
    refused = attach(folder, name, "--link", "mysql-slave:mysql-master", "--rtt", "40ms")
    assert refused.returncode == 1 and f"{second} of {name}, which replicated from" in refused.stderr, refused.stderr
    assert "relay log" in refused.stderr and name not in project.all_labs()
    assert attaching.settings(name) == settings
    is_repaired(second, refused.stderr)

    answer = attach(folder, name, "--link", "mysql-slave:mysql-master", "--rtt", "40ms")
    assert answer.returncode in (0, 3), answer.stderr
    for container in (third, source):
        ask(container, "INSERT INTO my_database.mark VALUES (900)")
    detached = command("detach", "--lab", name)
    assert detached.returncode == 1 and f"{third} of {name}, which replicated from" in detached.stderr, detached.stderr
    assert "Duplicate entry '900'" in detached.stderr and attaching.settings(name) == settings
    ask(third, "DELETE FROM my_database.mark")
    is_repaired(third, detached.stderr)

    assert attach(folder, name, "--link", "mysql-slave:mysql-master").returncode in (0, 3)
    subprocess.run(["docker", "stop", first, second], check=True, capture_output=True)
    stopped = command("detach", "--lab", name)
    assert stopped.returncode == 1 and f"verified: {third}, mysql-master: healthy" in stopped.stderr, stopped.stderr
    assert attaching.next_command(stopped.stderr) == f"docker start {first} && docker start {second}"
    subprocess.run(attaching.next_command(stopped.stderr), shell=True, check=True, capture_output=True)
    for container in (first, second):
        clock.wait_until(lambda at=container: attaching.is_up(at) and "SQL_Running: Yes" in ask(at, SLAVE), container)
    assert attaching.settings(name) == settings


def test_a_second_file_that_compose_reads_by_itself(command, attach, copied, started):
    """With the first one alone it is refused, as the project has what the second one says; the next step has both."""
    folder = copied("drupal")
    name, second = started(folder), str(folder / "docker-compose.override.yml")
    refused = attach(folder, name, "--link", "drupal:mariadb")

    assert refused.returncode == 2 and "the same files in the same order" in refused.stderr, refused.stderr
    assert f"--file {second}" in attaching.next_command(refused.stderr)
    public = Public(["drupal:mariadb"], ["cut-link", "kill"], "drupal")
    attached_drilled_and_restored(command, attach, public, folder, name, "-f", second)
