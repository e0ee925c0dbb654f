"""Is a topology with other numbers of replicas and relays the same one, larger, and is an impossible one refused?"""

import json

import msgspec
import pytest
from docker.models.containers import Container
from replication_lab.lab import memory
from replication_lab.model.lab import size
from replication_lab.model.lab.size import MOST, Size
from replication_lab.world import catalogue, host, lab_files
from replication_lab.world.docker import labels, project


def document(name):
    """Return the Compose file of a topology as Compose would read it, without its variables."""
    return msgspec.yaml.decode(catalogue.compose_text(name))


def test_a_size_of_the_files_own_number_has_the_same_nodes_links_and_toxics():
    """The two replicas of fanout, each with its own toxic, ports and volume."""
    one, other = catalogue.topology("fanout"), catalogue.topology("fanout-x2")

    assert (one.nodes, one.links, one.toxics) == (other.nodes, other.links, other.toxics)
    assert other.name == "fanout-x2"
    theirs, ours = document("fanout"), document("fanout-x2")
    for service in ("source", "far", "near", "toxiproxy"):
        for key in ("command", "ports", "volumes", "depends_on"):
            assert ours["services"][service].get(key) == theirs["services"][service].get(key)


def test_further_replicas_are_like_the_one_that_the_file_names():
    """Numbered, each with a server-id, a link, a port for clients and a volume of its own, and the toxic of near."""
    found, file = catalogue.topology("fanout-x20"), document("fanout-x20")
    replica = file["services"]["replica20"]

    assert [node.name for node in found.replicas] == ["far", "near", *(f"replica{each}" for each in range(3, 21))]
    assert {node.role for node in found.replicas} == {"replica"}
    assert found.toxics == {"source-far": "wan-85ms"} | {
        f"source-{node.name}": "lan" for node in found.replicas if node.name != "far"
    }
    assert replica["command"] == ["--server-id=21", "--read-only=1"]
    assert replica["ports"] == ["127.0.0.1:${LAB_PORT_REPLICA20:-23000-29999}:3306"]
    assert replica["volumes"] == ["replica20-data:/var/lib/mysql"] and "replica20-data" in file["volumes"]
    assert (found.link("source-replica20").port, found.link("source-replica20").upstream) == (21021, "source:3306")
    assert "127.0.0.1:23000-29999:21021" in file["services"]["toxiproxy"]["ports"]


def test_fewer_replicas_are_the_first_of_the_file():
    """Nothing of the others is left."""
    assert [node.name for node in catalogue.topology("fanout-x1").replicas] == ["far"]
    assert "near" not in catalogue.compose_text("fanout-x1")


def test_relays_stand_between_the_source_and_the_replicas():
    """Relays are like far, across the WAN; the replicas, like near, are shared out among them."""
    found, file = catalogue.topology("fanout-x5-via2"), document("fanout-x5-via2")
    roles = {node.name: node.role for node in found.nodes}

    assert [name for name, role in roles.items() if role == "relay"] == ["relay", "relay2"]
    assert [link.target for link in found.links_from("source")] == ["relay", "relay2"]
    assert [link.target for link in found.links_from("relay")] == ["replica", "replica3", "replica5"]
    assert {found.toxics[link.name] for link in found.links_from("source")} == {"wan-85ms"}
    assert {found.toxics[link.name] for link in found.links_from("relay2")} == {"lan"}
    assert file["services"]["relay"]["environment"]["LAB_ROLE"] == "relay"
    assert file["services"]["replica2"]["depends_on"] == ["relay2", "toxiproxy"]
    # A relay's own rows come before those of the nodes below it.
    assert [link.source for link in found.links][:2] == ["source", "source"]


def test_a_further_semi_synchronous_replica_acknowledges_too():
    """It is like the first, which keeps its name."""
    file = document("semisync-x3")

    assert [node.name for node in catalogue.topology("semisync-x3").replicas] == ["replica", "replica2", "replica3"]
    assert file["services"]["replica3"]["command"][1:] == file["services"]["replica"]["command"][1:]


def test_the_file_of_a_size_stands_in_any_folder():
    """Each file that it names is named by its full path, with nothing in it that Compose would replace."""
    file = document("fanout-x3")

    assert file["include"] == [f"{catalogue.COMPOSE}/engines/${{ENGINE:-mariadb}}.yaml"]
    named = {each["extends"]["file"] for each in file["services"].values()}
    assert named == {f"{catalogue.COMPOSE}/_parts.yaml"}


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("fanout-x0", "0 replicas", f"1 to {MOST} replicas"),
        (f"fanout-x{MOST + 1}", f"{MOST + 1} replicas", f"1 to {MOST} replicas"),
        ("fanout-x2-via3", "3 relays for 2 replicas", "0 to 2 relays"),
        ("chain-x3", "compose/chain.yaml does not say what a further replica is like", "x-lab with the key more"),
        ("semisync-x3-via1", "does not say what a further relay is like", "more: {relay: NODE}"),
        ("fanot-x3", "did you mean fanout?", "one of"),
    ],
)
def test_an_impossible_size_is_refused(name, found, expected, refused):
    """With what would be possible."""
    error = refused(catalogue.topology, name)

    assert found in error.found and expected in error.expected


def test_a_model_that_the_file_does_not_have_is_refused(tmp_path, monkeypatch, refused):
    """`more` names nodes."""
    text = (catalogue.COMPOSE / "fanout.yaml").read_text().replace("replica: near", "replica: nears")
    monkeypatch.setattr(catalogue, "COMPOSE", tmp_path)
    (tmp_path / "fanout.yaml").write_text(text)

    assert "'nears'" in refused(catalogue.topology, "fanout-x3").found


def test_numbers_of_the_command_line_become_a_name():
    """A number that is not given is the file's; so are both without any."""
    assert catalogue.resized("fanout", None, None) == "fanout"
    assert catalogue.resized("fanout", 20, 4) == "fanout-x20-via4"
    assert catalogue.resized("fanout", None, 2) == "fanout-x2-via2"
    assert catalogue.resized("fanout-x5", 7, None) == "fanout-x7"


def test_a_file_of_that_name_comes_first():
    """semisync-3 is a topology of its own."""
    assert not catalogue.is_resized("semisync-3") and catalogue.is_resized("semisync-x3")


def test_the_drills_of_the_file_are_those_of_every_size():
    """Their targets keep their names."""
    assert catalogue.drills("fanout-x20") == catalogue.drills("fanout")


# --- a running lab ----------------------------------------------------------------------------------------------------


def node_of(name):
    """Return a container of a node with this label."""
    return Container({"Config": {"Labels": {size.LABEL: name, labels.CONFIG_FILES: "/x/labs/lab-y.topology.yaml"}}})


def test_a_lab_is_found_again_by_its_label_without_its_files():
    """Its Compose file is named after the lab, so the label has the topology's name."""
    assert project._topology("lab-without-files", node_of("fanout-x3-via1")) == catalogue.topology("fanout-x3-via1")


@pytest.mark.parametrize("hostile", ["../../etc/passwd-x3", "fanout-x0", "_parts-x3", "x" * 5000 + "-x3"])
def test_a_hostile_label_is_no_topology(hostile):
    """It is only a name."""
    assert project._topology("lab-without-files", node_of(hostile)) is None


def test_the_settings_name_the_file_that_the_lab_was_started_with(tmp_path, monkeypatch):
    """A later change of the checkout does not change a running lab."""
    file = tmp_path / "lab-y.topology.yaml"
    file.write_text(catalogue.compose_text("fanout-x3"))
    monkeypatch.setattr(lab_files, "settings", lambda _name: {project.TOPOLOGY: str(file)})

    assert project._topology("lab-y", node_of("fanout-x3")).name == "fanout-x3"
    assert len(project._topology("lab-y", node_of("fanout-x3")).replicas) == 3


def test_too_little_memory_is_said_with_the_number_that_fits(monkeypatch, refused):
    """Of the engine's own servers, from the source on."""
    monkeypatch.setattr(host, "available_mib", lambda *_: 1000)
    found = catalogue.topology("fanout-x20")

    error = refused(memory.check, [(found, "mariadb", {})])
    assert error.found == "1000 MiB of memory are available, enough for 10 of them"
    assert error.expected == "at least 2100 MiB, for 21 servers"
    assert "enough for 7 of them" in refused(memory.check, [(found, "mysql-8.0", {})]).found


def test_links_are_what_toxiproxy_reads():
    """The list is JSON, as in every topology."""
    entries = json.loads(document("fanout-x4-via2")["configs"]["links"]["content"])

    assert [entry["name"] for entry in entries] == [link.name for link in catalogue.topology("fanout-x4-via2").links]
    assert Size(4, 2).name_of("fanout") == "fanout-x4-via2"
