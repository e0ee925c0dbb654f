"""Does the override change one service only, and is the attachment a topology like the lab's own?"""

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import yaml
from replication_lab import replication
from replication_lab.attach import compose_project
from replication_lab.attach import override as overriding
from replication_lab.attach.override import override
from replication_lab.model.lab.attachment import LABEL, OWNER, AttachedLink, Consumer
from replication_lab.world import lab_files
from replication_lab.world.docker import attachments, compose_call

from tests.fakes.docker_engine import Holding, Thing
from tests.unit.attached_projects import attachment

REPLICATED = attachment(
    links=[
        AttachedLink("app", "db", "app", "db", 3306, ["db"], ["default"]),
        AttachedLink("db-replica", "db", "db", "db-replica", 3306, ["db"], ["back"]),
    ],
    consumers=[Consumer("app", 2, "hash"), Consumer("db-replica", 1, "hash")],
    nodes={"db": "source", "db-replica": "replica", "other": "replica"},
    ports={"db": 3306, "db-replica": 3307, "other": 3306},
    replication="async",
    follows={"db-replica": "db", "other": "db"},
)


class Reader(yaml.SafeLoader):
    """YAML with Compose's tag."""


Reader.add_constructor("!override", lambda loader, node: ("override", loader.construct_sequence(node)))


def read(text):
    return yaml.load(text, Reader)


def test_the_override_gives_one_service_another_database():
    """And adds a Toxiproxy for the link, and one for the lab's own queries; nothing else."""
    found = read(override(attachment(), "1-2", {}))

    assert set(found["services"]) == {"lab-toxiproxy", "lab-toxiproxy-app-db", "app"}
    assert found["services"]["app"] == {"links": ["lab-toxiproxy-app-db:db", "lab-toxiproxy-app-db:shop-db-1"]}
    link = found["services"]["lab-toxiproxy-app-db"]
    assert link["ports"] == ["127.0.0.1:23000-29999:8474", "127.0.0.1:23000-29999:3306"]
    assert link["networks"] == ["default"]
    [proxy] = json.loads(found["configs"]["lab-toxiproxy-app-db"]["content"])
    assert (proxy["name"], proxy["listen"], proxy["upstream"]) == ("app-db", "0.0.0.0:3306", "db:3306")
    assert "networks" not in found


def test_the_added_services_have_the_least_power():
    """Loopback only, no capability, no new privileges, and labels by which they are found."""
    services = read(override(REPLICATED, "1-2", {}))["services"]
    added = [each for name, each in services.items() if name.startswith("lab-toxiproxy")]

    assert len(added) == 3
    for each in added:
        assert each["cap_drop"] == ["ALL"] and each["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in each["ports"])
        assert each["labels"][OWNER] == "1-2" and "replication-lab" not in each["labels"]


def test_a_label_of_an_attachment_is_a_name_and_no_more():
    """What it means is in a file of the user's own."""
    labels = read(override(attachment(), "1-2", {}))["services"]["lab-toxiproxy"]["labels"]

    assert labels == {OWNER: "1-2", LABEL: "shop"}


def test_links_that_a_service_has_are_replaced_only_where_they_lead_to_the_server():
    """Compose would append to them, and the old alias would win."""
    kept = read(override(attachment(), "1-2", {"app": ["cache:store"]}))["services"]["app"]["links"]
    how, replaced = read(override(attachment(), "1-2", {"app": ["cache:store", "db:database"]}))["services"]["app"][
        "links"
    ]

    assert kept == ["lab-toxiproxy-app-db:db", "lab-toxiproxy-app-db:shop-db-1"]
    assert how == "override" and replaced == ["cache:store", *kept]


def test_internal_networks_get_a_way_to_the_host():
    """A port of a container in internal networks only is not published."""
    found = read(override(attachment(internal=["default"]), "1-2", {}))

    assert found["services"]["lab-toxiproxy"]["networks"] == ["default", "lab-attach"]
    assert found["networks"]["lab-attach"]["labels"] == {OWNER: "1-2"}


def test_an_attached_project_is_a_topology():
    """Its servers are nodes, its links are links; a replica that no link leads to still has its source."""
    topology = REPLICATED.topology

    assert [(node.name, node.role) for node in topology.nodes][:2] == [("db", "source"), ("db-replica", "replica")]
    assert topology.link("app-db").source == "app" and topology.link("db-db-replica").server == "db"
    assert topology.sources == {"db-replica": "db", "other": "db"}
    assert [link.name for link in topology.links_from("db")] == ["db-db-replica"]
    assert topology.source.name == "db" and [each.name for each in topology.replicas] == ["db-replica", "other"]


def test_each_server_has_a_door_of_its_own():
    """By its place among the nodes, at its own port."""
    doors = json.loads(read(override(REPLICATED, "1-2", {}))["configs"]["lab-toxiproxy"]["content"])

    assert [(each["name"], each["listen"], each["upstream"]) for each in doors] == [
        ("db", "0.0.0.0:22001", "db:3306"),
        ("db-replica", "0.0.0.0:22002", "db-replica:3307"),
        ("other", "0.0.0.0:22003", "other:3306"),
    ]
    assert REPLICATED.door("other") == 22003


@pytest.mark.parametrize("kind", ["none", "async", "semisync"])
def test_each_recognised_replication_has_its_kind(kind):
    """The same classes as for the lab's own topologies."""
    assert replication.kind_of(msgspec.structs.replace(REPLICATED, replication=kind).topology)


def test_a_project_that_another_command_has_just_restored_is_left_alone(monkeypatch, tmp_path):
    """Its variables are gone by then: its services would be recreated with other settings."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    restored = []
    monkeypatch.setattr(attachments, "_restore", lambda attached, _: restored.append(attached))
    overriding.write(attachment(), "1-2", attachments.KeptAttachment(), {})

    attachments.restore("shop")
    lab_files.remove("shop")
    attachments.restore("shop")
    assert restored == [attachment()]


@pytest.mark.parametrize("how", ["a link", "others may read it", "another project's", "rubbish", "nothing"])
def test_an_attachment_is_believed_only_from_a_file_that_is_this_user_s_alone(monkeypatch, tmp_path, how):
    """Sabotage: a link to a file of others, a file that others may write, one copied from another project."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    overriding.write(attachment(), "1-2", attachments.KeptAttachment(), {})
    kept, other = tmp_path / "shop.attached", tmp_path / "other.attached"
    assert attachments.kept("shop").attached == attachment()
    if how == "a link":
        kept.symlink_to(kept.rename(other))
    elif how == "others may read it":
        kept.chmod(0o644)
    elif how == "another project's":
        kept.rename(other)
    else:
        kept.write_text("{" if how == "rubbish" else "{}")

    assert attachments.kept("shop") is None and "shop" not in attachments.all_kept()
    assert attachments.kept("other") is None
    attachments.restore("shop")


def test_every_container_of_a_service_is_compared_with_its_own_settings(monkeypatch):
    """Compose may have a container recreated and another one left."""
    containers = [
        SimpleNamespace(name=f"shop-app-{number}", labels={compose_call.HASH: "1"}, volumes=f"of {number}")
        for number in (1, 2)
    ]
    monkeypatch.setattr(compose_call, "containers", lambda project: {"app": containers})
    monkeypatch.setattr(compose_call, "settings", lambda one: {"volumes": one.volumes, "program": "same"})
    before = tuple(map(compose_call.settings, containers))
    attached = attachment(consumers=[Consumer("app", 2, "1", before)])
    assert attachments.differences(attached) == []

    containers[1].volumes = "new"
    assert attachments.differences(attached) == ["shop-app-2 differs from before in: volumes"]
    containers[1].labels = {compose_call.HASH: "2"}
    assert "was recreated with other settings" in attachments.differences(attached)[0]


def test_only_the_network_of_the_project_itself_is_removed(monkeypatch):
    """The engine finds a name by a part of it: that of another attached project contains it."""
    networks = [Thing(each, None, kind="network", labels={OWNER: "1-2"}) for each in ("shop", "myshop", "shop2")]
    for network in networks:
        network.name = f"{network.labels['com.docker.compose.project']}_lab-attach"
    monkeypatch.setattr(attachments.engine, "client", lambda: Holding(networks))
    attachments.remove_added("shop")

    assert [network.removed for network in networks] == [True, False, False]


def test_the_files_of_a_project_are_found_in_a_path_with_a_comma(tmp_path):
    """Compose puts commas between them; a file that is gone stays as it was named."""
    folder = tmp_path / "a, b,c"
    folder.mkdir()
    files = [str(folder / name) for name in ("compose.yaml", "more.yaml")]
    for file in files:
        Path(file).write_text("{}")

    assert compose_project.split_files(",".join(files)) == files
    assert compose_project.split_files("/gone.yaml") == ["/gone.yaml"] and compose_project.split_files("") == []


def test_the_command_that_attaches_a_project_again_names_its_files_and_links():
    """As it is typed in any folder."""
    typed = "./lab attach --project-name shop --file /shop/docker-compose.yml --link app:db:3306"

    assert attachment().again == typed
