"""Is each project that cannot be attached refused before anything changes, by its name and with the reason?"""

import shlex
from dataclasses import replace

import click
import pytest
from replication_lab.attach import checks, plan
from replication_lab.attach.checks import AskedLink, parse_link
from replication_lab.cli import cli
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.attachment import ComposeCall

from tests.unit.attached_projects import APPLICATION, DATABASE, project

APP_DB = AskedLink("app", "db")


def test_a_next_command_names_the_files_of_the_project():
    """Without them Compose would start another project, or none."""
    local = replace(
        project(running={"app": []}),
        call=ComposeCall("shop", ["/my shop/local.yml"], "/my shop", ["prod.env"], ["web"]),
    )
    with pytest.raises(LabError) as caught:
        checks.check_link(local, APP_DB)
    with pytest.raises(LabError) as no_server:
        checks.check_link(project(running={"worker": [APPLICATION]}), AskedLink("app", "worker"))

    assert caught.value.next_step == (
        "docker compose --project-directory '/my shop' --project-name shop --file '/my shop/local.yml' "
        "--env-file prod.env --profile web up --detach --wait app"
    )
    assert no_server.value.next_step == (
        "./lab attach --project-name shop --file /shop/docker-compose.yml --link app:db"
    )


def refusal(act, *arguments) -> str:
    with pytest.raises(LabError) as caught:
        act(*arguments)
    assert caught.value.expected
    can_be_typed(caught.value.next_step)
    return caught.value.found


def can_be_typed(command: str) -> None:
    """Fail unless the next command is one, of this project's files, or one of the lab's with its options."""
    program, *words = shlex.split(command)
    if program == "docker":
        assert "--file" in words and "…" not in command, command
    else:
        assert program == "./lab", command
        try:
            parent = click.Context(cli, info_name="lab", **cli.context_settings)
            cli.get_command(parent, words[0]).make_context(words[0], words[1:], parent)
        except click.exceptions.Exit:
            assert words[-1] == "--help"


@pytest.mark.parametrize(
    "text", ["app", "app:", ":db", "app:db:", "app:db:x", "app:db:0", "app:db:123456", "app:db:3306:1", ""]
)
def test_a_link_is_two_services_and_at_most_a_port(text):
    """Anything else names no link."""
    assert "does not name two services" in refusal(parse_link, text)


def test_a_link_is_read_with_and_without_its_port():
    """Port 0 is found out later."""
    assert parse_link("app:db") == AskedLink("app", "db") and parse_link("app:db:3307") == AskedLink("app", "db", 3307)
    assert str(parse_link("app:db:3307")) == "app:db:3307"
    assert "leads from db to itself" in refusal(parse_link, "db:db")


def test_a_link_is_asked_for_once_and_at_least_one():
    """Two Toxiproxies between the same services would be in one another's way."""
    assert refusal(checks.check_asked, []) == "no link is given"
    assert "given twice" in refusal(checks.check_asked, [APP_DB, AskedLink("app", "db", 3306)])


def test_a_usual_project_is_not_refused():
    """Neither its link, nor its consumer."""
    found = project()
    checks.check_project(found)
    checks.check_link(found, APP_DB)
    checks.check_consumer(found, "app")
    checks.check_unchanged(found, [])


@pytest.mark.parametrize(
    ("processes", "program"),
    [
        (["/usr/sbin/mysqld --datadir=/data"], "sh /start.sh"),
        (["/bin/sh /usr/bin/mysqld_safe", "mariadbd --user=mysql"], "mysqld_safe"),
        (["/usr/bin/qemu-x86_64 /usr/sbin/mysqld mysqld"], "docker-entrypoint.sh mysqld"),
        (["/opt/bitnami/mysql/bin/mysqld --defaults-file=/opt/bitnami/mysql/conf/my.cnf"], "/entrypoint.sh /run.sh"),
        ([], "docker-entrypoint.sh mysqld --server-id=2"),
        ([], "docker-entrypoint.sh --server-id=2"),
    ],
)
def test_a_server_is_known_by_its_program(processes, program):
    """Whatever started it; without a list of processes by what the container was told to start."""
    assert replace(DATABASE, processes=tuple(processes), program=program).is_database


@pytest.mark.parametrize(
    ("processes", "program"),
    [
        (["/bin/mysqld_exporter --config.my-cnf=/etc/my.cnf"], "/bin/mysqld_exporter"),
        (["mysqldump --host=db --all-databases"], "docker-entrypoint.sh mysqldump --host=db"),
        (["sh -c until [ -S /var/run/mysqld/mysqld.sock ]; do sleep 1; done; exec php-fpm"], "sh -c mysqld"),
        (["mysql -h db -e SELECT", "sleep 60"], "docker-entrypoint.sh mysql -h db"),
        (["python3 /srv/mysqld.py"], "python3 /srv/mysqld.py"),
        (["tail -f /var/log/mysqld"], "tail -f /var/log/mysqld"),
        ([], "/bin/mysqld_exporter"),
        ([], "docker-entrypoint.sh mysqldump --host=db"),
        ([], "sh -c wait-for /var/run/mysqld/mysqld.sock"),
    ],
)
def test_what_only_mentions_a_server_is_none(processes, program):
    """Also in an image that exposes the port of one: it may be a backup, a client or an exporter."""
    exposed = frozenset({3306}) if "entrypoint" in program else frozenset()

    assert not replace(DATABASE, processes=tuple(processes), program=program, exposed=exposed).is_database


def test_a_project_that_does_not_run_or_is_attached_is_refused():
    """All links are given at once."""
    stopped = project(running={"db": [], "app": [], "worker": []})

    assert refusal(checks.check_project, stopped) == "shop does not run"
    assert refusal(checks.check_not_attached, "shop", ["app", "lab-toxiproxy-app-db"]) == "shop is attached already"
    checks.check_not_attached("shop", ["app", "db"])


@pytest.mark.parametrize(
    ("services", "running", "found"),
    [
        ({"app": {"network_mode": "host"}}, {}, "app has network_mode: host"),
        ({"db": {"network_mode": "host"}}, {}, "db has network_mode: host"),
        ({"app": {"network_mode": "service:worker"}}, {}, "app uses the network of worker"),
        ({"app": {"network_mode": "none"}}, {}, "app has network_mode: none"),
        ({}, {"app": []}, "app of shop does not run"),
        ({}, {"db": [replace(DATABASE, status="exited")]}, "db is exited (shop-db-1)"),
        ({}, {"app": [APPLICATION, replace(APPLICATION, name="shop-app-2", status="restarting")]}, "app is restarting"),
        ({}, {"db": [DATABASE, replace(DATABASE, name="shop-db-2")]}, "db runs in 2 containers"),
        ({}, {"db": [APPLICATION]}, "db runs `python3 web.py`, which is not a server of the MySQL family"),
        ({"db": {"networks": {"back": None}}}, {}, "app and db have no network in common"),
        ({"app": {"extra_hosts": ["db=10.0.0.1"]}}, {}, "app has db at 10.0.0.1 in extra_hosts"),
        ({"app": {"extra_hosts": {"shop-db-1": "10.0.0.1"}}}, {}, "app has shop-db-1 at 10.0.0.1 in extra_hosts"),
        ({"app": {"extra_hosts": ["mysql=172.20.0.2"]}}, {}, "app has mysql at 172.20.0.2 in extra_hosts"),
        ({"app": {"external_links": ["other-db-1:db"]}}, {}, "app reaches other-db-1:db by external_links"),
    ],
)
def test_what_no_alias_reaches_is_refused(services, running, found):
    """With the service and the reason."""
    assert found in refusal(checks.check_link, project(services, running), APP_DB)


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"DATABASE_URL": "mysql://app@172.20.0.2/shop"}, "DATABASE_URL contains the address of db"),
        ({"DB_HOST": "172.20.0.2"}, "DB_HOST contains the address of db"),
        ({"DATABASE_URL": "mysql://app@host.docker.internal:13306/shop"}, "DATABASE_URL leads to the port of db on"),
        ({"DB_HOST": "host.docker.internal", "DB_PORT": "13306"}, "DB_HOST leads to the port of db on the host"),
    ],
)
def test_a_consumer_that_uses_no_name_is_refused(environment, found):
    """It would never cross the link."""
    published = {"ports": [{"target": 3306, "published": "13306"}]}
    consumer = replace(APPLICATION, environment=environment)

    assert found in refusal(checks.check_link, project({"db": published}, {"app": [consumer]}), APP_DB)


@pytest.mark.parametrize(
    "environment",
    [
        {"DB_HOST": "db"},
        {"OTHER": "172.20.0.20"},
        {"OTHER": "1172.20.0.2"},
        {"OTHER": "172.20.0.2.example"},
        {"API": "http://host.docker.internal:8080"},
    ],
)
def test_another_address_is_no_reason_to_refuse(environment):
    """Only the server's own counts."""
    published = {"ports": [{"target": 3306, "published": "13306"}]}
    consumer = replace(APPLICATION, environment=environment)
    checks.check_link(project({"db": published}, {"app": [consumer]}), APP_DB)


def test_a_service_of_another_project_or_profile_is_unknown():
    """Links stay within a project; a profile has to be active."""
    found = project(running={"reports": [APPLICATION]})

    assert "unknown service of shop 'dbb'; did you mean db?" in refusal(
        checks.check_link, found, AskedLink("app", "dbb")
    )
    assert "its profile is not active" in refusal(checks.check_link, found, AskedLink("reports", "db"))


@pytest.mark.parametrize("key", ["network_mode", "pid", "ipc"])
def test_a_consumer_whose_namespace_another_service_shares_is_refused(key):
    """The other one would lose it."""
    found = project({"sidecar": {key: "service:app"}}, {"sidecar": [APPLICATION]})

    assert "sidecar shares app's" in refusal(checks.check_consumer, found, "app")
    checks.check_consumer(project({"sidecar": {key: "service:app"}}), "app")


def test_what_could_not_be_restored_is_refused():
    """An older build, or other settings than the files give now."""
    older = replace(APPLICATION, named_image="sha256:newer")

    assert "older build" in refusal(checks.check_consumer, project(running={"app": [older]}), "app")
    assert "app runs with settings that differ" in refusal(checks.check_unchanged, project(), ["app"])


def test_a_consumer_that_is_not_healthy_already_is_refused():
    """Afterwards nobody could tell whether it is as before; its health check says why."""
    red = replace(APPLICATION, unhealthy="exit status 22: 503 Service Unavailable")

    assert "app is not healthy already, by its own health check (exit status 22: 503" in refusal(
        checks.check_consumer, project(running={"app": [red]}), "app"
    )


@pytest.mark.parametrize(
    ("declared", "exposed", "port"),
    [
        ({}, {3306, 33060}, 3306),
        ({}, set(), 3306),
        ({"expose": ["3307"]}, set(), 3307),
        ({"ports": [{"target": 3310, "published": "13310"}]}, {33060}, 3310),
        ({"expose": ["3306", "4567"]}, {4567, 4568}, 3306),
    ],
)
def test_the_port_is_the_one_for_clients(declared, exposed, port):
    """By the image, by `expose` or by a published port; never a cluster's own."""
    found = project({"db": declared}, {"db": [replace(DATABASE, exposed=frozenset(exposed))]})

    assert found.port("db") == port


def test_a_port_that_could_be_any_of_several_has_to_be_given():
    """The link can name it."""
    found = project({"db": {"expose": ["3307", "3308"]}}, {"db": [replace(DATABASE, exposed=frozenset())]})

    assert "db has the ports 3307, 3308" in refusal(found.port, "db")


def test_every_name_of_a_server_is_an_alias():
    """Service, container, network aliases, and the names of the consumer's own links."""
    found = project(
        {
            "db": {"container_name": "shop-mysql", "networks": {"default": {"aliases": ["mysql.internal"]}}},
            "app": {"links": ["db:database", "cache:store"]},
        }
    )

    assert found.names("db", "app") == ["db", "shop-mysql", "shop-db-1", "mysql.internal", "database"]
    assert found.databases() == ["db"]


def test_a_service_that_names_a_consumer_by_its_id_is_told():
    """Compose writes the ID of the container that volumes come from into the settings of a service."""
    found = project({"worker": {"volumes_from": ["app:ro"]}, "db": {"volumes_from": ["container:other"]}})

    (said,) = plan._by_id(found, ["app"])
    assert said.startswith("worker has the volumes of app by volumes_from")
    assert [*plan._by_id(found, ["app", "worker"])] == [*plan._by_id(found, ["db"])] == []
