"""Access to a lab, and its privileges: in the rendered Compose files, in running containers, in stored files."""

import json
import os
import socket
import subprocess
from contextlib import suppress

import pymysql
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue, lab_files, owners
from replication_lab.world.docker import engine, labels
from replication_lab.world.docker.lab import PASSWORDS

GIVEN = {variable: f"of-{user}-in-this-test" for user, variable in PASSWORDS.items()}
ALLOWED = {"NET_ADMIN"}


@pytest.fixture(scope="module", params=catalogue.topologies())
def rendered(request):
    """Return a topology as Compose would start it for `lab up`."""
    file = catalogue.compose_file(request.param)
    settings = {"ENGINE": "mariadb", **GIVEN, "LAB_OWNER": "1-1"}
    done = subprocess.run(
        ["docker", "compose", "-f", str(file), "--profile", "*", "config", "--format", "json"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_ports_are_on_loopback_only(rendered):
    """Every published port names 127.0.0.1; no service uses the host's network."""
    ports = {name: each.get("ports", []) for name, each in rendered["services"].items()}

    assert {port.get("host_ip") for each in ports.values() for port in each} <= {"127.0.0.1"}
    assert [name for name, each in rendered["services"].items() if each.get("network_mode") == "host"] == []


def test_nothing_is_privileged_and_every_capability_is_named(rendered):
    """All are dropped; what is given back is on the list. The engine's socket is in no container."""
    for name, each in rendered["services"].items():
        assert not each.get("privileged"), name
        assert each.get("cap_drop") == ["ALL"], name
        assert set(each.get("cap_add", [])) <= ALLOWED, name
        assert "no-new-privileges:true" in each.get("security_opt", []), name
        assert not [mount for mount in each.get("volumes", []) if "docker.sock" in str(mount)], name


def test_passwords_are_the_labs_own(rendered):
    """Wherever one is handed over it is the one that was given; none is empty, none has a default beside it."""
    found = [
        (name, key, value)
        for name, each in rendered["services"].items()
        for key, value in each.get("environment", {}).items()
        if "PASSWORD" in key
    ]
    accounts = rendered["configs"]["accounts"]["content"]

    assert {value for _, _, value in found} == set(GIVEN.values())
    for user in ("lab", "replicator"):
        assert f"CREATE USER '{user}'@'%' IDENTIFIED BY '{GIVEN[PASSWORDS[user]]}'" in accounts
    assert accounts.count("IDENTIFIED BY") == accounts.count("CREATE USER") == 2


# --- a lab that runs --------------------------------------------------------------------------------------------------


def containers(lab):
    return engine.client().containers.list(filters={"label": [f"{labels.PROJECT}={lab.name}"]})


def test_a_running_labs_ports_are_on_loopback(semisync):
    """As the engine has bound them: databases, links and Toxiproxy's API."""
    bound = [binding for one in containers(semisync) for each in one.ports.values() for binding in each or []]

    assert len(bound) >= 4
    assert {binding["HostIp"] for binding in bound} == {"127.0.0.1"}


def test_toxiproxys_api_is_reached_by_loopback_only(semisync):
    """Not by another address of this machine."""
    _, port = semisync.service("toxiproxy").published(8474)
    own = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}

    with socket.create_connection(("127.0.0.1", port), timeout=2):
        pass
    for address in (address for address in own if not address.startswith("127.")):
        with pytest.raises(OSError), socket.create_connection((address, port), timeout=2):
            pass


@pytest.mark.parametrize("password", ["", "lab", "root", "mysql"])
@pytest.mark.parametrize("user", ["root", "lab", "replicator", ""])
def test_no_account_has_an_empty_or_a_usual_password(semisync, user, password):
    """On any node."""
    for node in semisync.topology.nodes:
        host, port = semisync.node(node.name).published(3306)
        with pytest.raises(pymysql.err.OperationalError) as refusal:
            pymysql.connect(host=host, port=port, user=user, password=password, connect_timeout=5)
        assert refusal.value.args[0] == 1045


def test_running_containers_are_not_privileged(semisync):
    """As the engine runs them."""
    for one in containers(semisync):
        config = one.attrs["HostConfig"]
        assert not config["Privileged"] and config["CapDrop"] == ["ALL"], one.name
        assert set(config["CapAdd"] or []) <= ALLOWED, one.name


def content(path):
    """Return what is in a file; nothing of a directory, or of a file that a test in parallel has just removed."""
    with suppress(IsADirectoryError, FileNotFoundError):
        return path.read_bytes()
    return b""


def test_a_labs_password_is_in_no_other_lab_and_in_nothing_that_is_kept(semisync):
    """Records and reports of this checkout, and the other labs' containers."""
    secrets = semisync.passwords.values()
    everything = engine.client().containers.list(all=True, ignore_removed=True)
    others = [one for one in everything if semisync.name not in one.name]
    kept = [path for path in catalogue.RUNS.glob("*/*") if path.parent.name != "labs"]

    assert [one.name for one in others for secret in secrets if secret in json.dumps(one.attrs)] == []
    assert [path for path in kept for secret in secrets if secret.encode() in content(path)] == []
    assert lab_files.file_of(semisync.name, lab_files.SETTINGS).stat().st_mode & 0o077 == 0


def test_an_application_may_not_write_where_it_is_read_only(semisync):
    """The account that clients have is none of an administrator's."""
    with semisync.node("replica").server().as_application().session() as connection:
        with pytest.raises(pymysql.err.MySQLError, match="read-only"), connection.cursor() as cursor:
            cursor.execute("CREATE TABLE lab.refused (id INT)")


def test_an_application_cannot_become_an_administrator(semisync):
    """Nor look at the accounts."""
    with pytest.raises(LabError, match="denied"):
        semisync.node("source").server().as_application().rows("SELECT * FROM mysql.user")


# --- labels that an image brings with it ------------------------------------------------------------------------------

ATTACHMENT, ATTACHED_BY = "replication-lab.attachment", "replication-lab.attached-by"
# The process of an owner that has ended, as an earlier version wrote it.
ENDED = "999999999-1.00"


def attachment_of(folder, project, file):
    """Return an attachment as a label of an earlier version had it: its files, its folder and its consumers."""
    consumers = [{"service": "app", "count": 1, "config_hash": "x"}]
    compose = {"project": project, "files": [str(file)], "directory": str(folder)}
    empty = {"links": [], "nodes": {}, "ports": {}, "images": {}, "doors": []}
    return json.dumps({"compose": compose, "consumers": consumers, "state": str(folder), **empty})


def hostile(folder, file):
    """Return the labels of images that want something of the lab."""
    mine = owners.owner().replace(f"process={os.getpid()},", "process=999999999,")
    project, service = labels.PROJECT, labels.SERVICE
    added = {ATTACHED_BY: ENDED, service: "app"}
    node = {service: "source", labels.ENGINE_LABEL: "mariadb", labels.CONFIG_FILES: f"{folder}/semisync.yaml"}
    return {
        "pattern": {**added, project: "*", ATTACHMENT: attachment_of(folder, "*", file)},
        "elsewhere": {**added, project: "../x", ATTACHMENT: attachment_of(folder, "../x", file)},
        "consumer": {**added, project: "evil", ATTACHMENT: attachment_of(folder, "evil", file)},
        "missing": {ATTACHMENT: attachment_of(folder, "evil", file)},
        "rubbish": {**added, project: "evil", ATTACHMENT: "{"},
        "types": {**added, project: "evil", ATTACHMENT: '{"compose": 7}'},
        "megabyte": {ATTACHMENT: "x" * (1 << 20), project: "y" * (1 << 20), ATTACHED_BY: "1" * (1 << 20)},
        "lab": {**node, labels.LABEL: ENDED, project: "lab-evil"},
        "dead": {**node, labels.LABEL: mine, project: "lab-evil"},
        "folder": {**node, labels.LABEL: f"{ENDED}@{folder}", project: "lab-evil"},
        "bare": {labels.LABEL: mine},
        "half": {labels.LABEL: "compose", labels.ENGINE_LABEL: "mariadb", project: "lab-evil"},
    }


@pytest.fixture
def untrusted(docker, tmp_path):
    """Create, and do not start, a container of an image for each set of hostile labels; the folder that they name."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    for name in ("evil.json", "evil.attached", "a.conf", "x.json", "evil.override.yaml"):
        (folder / name).write_text("{}")
    # If Compose ran it, its container would be there.
    file = folder / "compose.yaml"
    file.write_text("services: {app: {image: replication-lab/toxiproxy, container_name: test-evil-ran}}\n")
    made, tags = [], []
    try:
        plain = docker.containers.create("replication-lab/toxiproxy", network_mode="none")
        made.append(plain)
        for name, found in hostile(folder, file).items():
            tags.append(f"test-untrusted-{name}:1")
            plain.commit(f"test-untrusted-{name}", "1", conf={"Labels": found})
            made.append(docker.containers.create(tags[-1], name=f"test-untrusted-{name}", network_mode="none"))
        yield folder
    finally:
        for container in made:
            container.remove(force=True)
        for tag in tags:
            docker.images.remove(tag, force=True)


@pytest.mark.alone
def test_the_labels_of_an_untrusted_image_are_names_and_no_instructions(untrusted, command, docker):
    """A stopped container of such an image is enough: nothing is deleted or run, and each command goes on."""
    before = sorted(path.name for path in untrusted.iterdir())
    said = {
        words: command(*words.split())
        for words in ("down --lab no-such-lab", "clean --dry-run", "status", "doctor", "detach --lab evil")
    }

    for words, done in said.items():
        assert "Traceback" not in done.stderr and "evil" not in done.stdout.replace("test-untrusted", ""), words
    assert said["clean --dry-run"].returncode == said["status"].returncode == 0
    assert "no lab 'no-such-lab' is running" in said["down --lab no-such-lab"].stderr
    assert "test-untrusted-pattern" in said["doctor"].stdout
    assert sorted(path.name for path in untrusted.iterdir()) == before
    there = {one.name for one in docker.containers.list(all=True, ignore_removed=True)}
    assert {f"test-untrusted-{name}" for name in hostile(untrusted, "")} <= there and "test-evil-ran" not in there
