"""Are projects as public repositories have them, rebuilt in small form, attached, drilled and as before afterwards?"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from replication_lab.world import clock
from replication_lab.world.docker import engine, images, project

from tests.lab import attaching

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
SECONDS = 60
# What a replica, a node of Galera's and a member of a group say of their replication.
SLAVE = "SHOW ALL SLAVES STATUS"
GALERA = "SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment', 'wsrep_ready')"
GROUP = "SELECT MEMBER_HOST, MEMBER_STATE, MEMBER_ROLE FROM performance_schema.replication_group_members ORDER BY 1"
# The lines of these answers that stay the same.
STAYS = re.compile(r"(?:\w+_Running|Master_Host|Last_\w*Error|Variable_name|Value|MEMBER_\w+): .*", re.IGNORECASE)


class Public(NamedTuple):
    """A project: its links, its drills, the application, other options, and how each server is asked, by its root.

    `by_id` is a service that names a consumer's container by its ID.
    """

    links: list[str]
    faults: list[str]
    application: str
    others: tuple[str, ...] = ()
    asked: dict[str, str] = {}
    root: str = ""
    by_id: str = ""


PROJECTS = {
    "wordpress": Public(
        ["wordpress:db-master", "db-slave:db-master"],
        ["cut-link", "cut-replication"],
        "wordpress",
        asked={"db-slave": SLAVE},
        root="wp-root",
    ),
    "laravel": Public(["laravel.test:mysql", "queue:mysql"], ["cut-link-laravel.test-mysql", "kill"], "laravel.test"),
    "nextcloud": Public(["app:db"], ["cut-link", "kill"], "app"),
    "keycloak": Public(["keycloak:mysql"], ["cut-link"], "keycloak"),
    "matomo": Public(["app:db"], ["cut-link", "pause"], "app", by_id="archive"),
    "gitea": Public(["server:db"], ["black-hole", "kill"], "server"),
    "bitnami_galera": Public(
        ["app:galera0"],
        ["cut-link", "kill-galera0", "kill-galera2"],
        "app",
        asked=dict.fromkeys(("galera0", "galera1", "galera2"), GALERA),
        root="galera-root",
    ),
    "bitnami_replica": Public(
        ["app:mariadb-master", "mariadb-slave:mariadb-master"],
        ["cut-link", "cut-replication"],
        "app",
        asked={"mariadb-slave": SLAVE},
        root="master-root",
    ),
    "innodb_cluster": Public(
        ["mysql-router:mysql-server-1"],
        ["cut-link", "kill-mysql-server-3"],
        "app",
        ("--endpoint", "mysql-router:6446"),
        dict.fromkeys(("mysql-server-1", "mysql-server-2", "mysql-server-3"), GROUP),
        "mysql",
    ),
}
SYMFONY = Public(["php:database"], ["cut-link"], "php")


@pytest.fixture(scope="module", autouse=True)
def all_images(built):
    """Build the applications of the projects, and the servers that stand for the vendors'."""
    attaching.build_for_public_projects()
    images.ensure(["haproxy", "mysql-8.0"])


@pytest.fixture
def copied(tmp_path):
    """Copy a project's folder, as its servers may keep their data beside the file.

    A test asks for this before it asks for `started`: the folder is needed until the project is removed.
    """
    return lambda name: Path(shutil.copytree(attaching.PROJECTS / name, tmp_path / name))


def everything(name: str, public: Public) -> dict[str, object]:
    """Return what is compared: each container's settings, its networks and names there, volumes, replication."""
    found = engine.client().containers.list(
        all=True, filters={"label": f"com.docker.compose.project={name}"}, ignore_removed=True
    )
    networks = {one.name: sorted(one.attrs["NetworkSettings"]["Networks"]) for one in found}
    return {
        "settings": attaching.settings(name),
        "networks": networks,
        "volumes": sorted(attaching.volumes_of(name)),
        "hosts": {
            # Compose hands them to the engine in any order.
            one.name: (sorted(one.attrs["HostConfig"]["ExtraHosts"] or []), one.attrs["HostConfig"]["Memory"])
            for one in found
        },
        "ports": {one.name: sorted(one.attrs["HostConfig"]["PortBindings"] or {}) for one in found},
        "replication": {
            service: STAYS.findall(attaching.query(name, service, public.root, sql))
            for service, sql in public.asked.items()
        },
    }


def written(name: str, public: Public) -> int:
    """Let the application write a row, and return how many it then reads."""

    def answers() -> bool:
        try:
            return bool(attaching.ask(name, public.application))
        except subprocess.CalledProcessError:
            return False

    clock.wait_until(answers, f"the application of {name} to answer", SECONDS, every=0.5)
    attaching.inside(f"{name}-{public.application}-1", "curl", "-fsS", "-X", "POST", "http://localhost:8080/orders")
    (rows,) = map(int, re.findall(r"\d+", attaching.ask(name, public.application)))
    return rows


def attached_drilled_and_restored(command, attach, public, folder, name, *others):
    """Do all of it, and compare everything with what it was before; the application writes all the time."""
    rows, before = written(name, public), everything(name, public)
    # What has ended, such as a service that makes a cluster, would be created again.
    planned = attaching.changed_by_up(folder, name)
    links = (part for link in public.links for part in ("--link", link))
    answer = attach(folder, name, *links, *public.others, *others, "--rtt", "40ms")

    assert answer.returncode in (0, 3), answer.stderr
    assert "will be refused" not in answer.stderr
    assert ("the next `docker compose up` recreates it" in answer.stderr) is bool(public.by_id)
    assert written(name, public) == rows + 1
    for fault in public.faults:
        code, said = attaching.drilled(command, name, "--drill", fault)
        assert code == 0 and "HOLDS" in said, said
    attaching.restored(command, folder, name, before["settings"], planned, public.by_id)
    assert written(name, public) == rows + 2
    assert everything(name, public) == before


@pytest.mark.parametrize("which", PROJECTS)
def test_a_public_project_is_attached_drilled_and_restored(command, attach, copied, started, which):
    """Its containers, networks and volumes are compared, what its replicas say, and what its application wrote."""
    folder = copied(which)
    attached_drilled_and_restored(
        command,
        attach,
        PROJECTS[which],
        folder,
        started(folder),
    )


def test_an_account_that_may_not_ask_is_refused_until_it_may(command, attach, copied, started, tmp_path):
    """Symfony's: root has a password that only the server's log knows; each printed way on is taken."""
    folder = copied("symfony")
    name = started(folder)
    before = attaching.settings(name)
    refused = attach(folder, name, "--link", "php:database")

    assert refused.returncode == 2
    assert "accepts the account app (MYSQL_PASSWORD), which may not ask how the server replicates" in refused.stderr
    assert "--dsn database=@FILE" in refused.stderr
    assert attaching.settings(name) == before and name not in project.all_labs()
    found = subprocess.run(
        attaching.next_command(refused.stderr), shell=True, check=True, capture_output=True, text=True
    )
    root = found.stdout.split()[-1]
    grant = re.search(r"GRANT .+? TO '.+?'@'.+?'", " ".join(refused.stderr.split()))[0]

    # The grant alone suffices for links, and drills are refused beforehand.
    attaching.query(name, "database", root, grant)
    answer = attach(folder, name, "--link", "php:database", "--rtt", "40ms")
    assert answer.returncode in (0, 3), answer.stderr
    assert "the account on database may not create that schema" in " ".join(answer.stderr.split())
    code, said = attaching.drilled(command, name, "--drill", "cut-link")
    assert code == 2 and "may not create that schema" in " ".join(said.split()), said
    attaching.restored(command, folder, name, before)

    dsn = tmp_path / "root.dsn"
    dsn.touch(0o600)
    dsn.write_text(f"mysql://root:{root}@")
    attached_drilled_and_restored(command, attach, SYMFONY, folder, name, "--dsn", f"database=@{dsn}")
