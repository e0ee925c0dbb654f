"""Are the nodes of a lab placed on the engines that were named, asked there, and never called gone unseen?"""

from types import SimpleNamespace

import pytest
from docker.errors import ImageNotFound
from replication_lab.faults import site_faults, toxic_calibration
from replication_lab.lab import down
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab import site
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.lab.site import Site, placed
from replication_lab.world import catalogue, lab_files
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import (
    labels,
    leftovers,
    machine,
    own_engine,
    project,
    site_images,
    sites,
)
from replication_lab.world.docker.bake_file import RECIPE
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import write_whole

from tests.fakes.docker_engine import Holding, Image, Thing
from tests.fakes.link import FakeLink
from tests.fakes.owners import dead

SEMISYNC, FANOUT = catalogue.topology("semisync"), catalogue.topology("fanout")
DB2 = "tcp://10.1.0.2:2375"
ADDRESSES = {"source": "10.1.0.1", "replica": "10.1.0.2"}
HERE, THERE = Site("", "10.1.0.1"), Site(DB2, "10.1.0.2")
APART = {"source": HERE, "replica": THERE}


# --- what is asked for ------------------------------------------------------------------------------------------------


def test_a_node_is_placed_on_its_engine_and_the_others_on_the_commands_own():
    """Each site has the address that was given for one of its nodes."""
    assert placed(SEMISYNC, {"replica": DB2}, ADDRESSES) == APART
    assert placed(SEMISYNC, {}, {}) == {}


@pytest.mark.parametrize(
    ("endpoints", "addresses", "found"),
    [
        ({"nobody": DB2}, ADDRESSES, "unknown node of semisync 'nobody'"),
        ({}, ADDRESSES, "--site-address without --site"),
        ({"replica": DB2}, {"replica": "10.1.0.2"}, "the site of source has no address"),
        ({"replica": DB2}, ADDRESSES | {"replica": "db2"}, "db2 is not an IPv4 address"),
        ({"replica": DB2}, ADDRESSES | {"replica": "0.0.0.0"}, "other machines cannot reach a site at 0.0.0.0"),
        ({"replica": DB2}, ADDRESSES | {"replica": "127.0.0.1"}, "other machines cannot reach a site at 127.0.0.1"),
        ({"replica": DB2}, ADDRESSES | {"replica": "10.1.0.1"}, "two sites have the address 10.1.0.1"),
        ({"replica": DB2, "source": DB2}, {"source": "10.1.0.2"}, f"all nodes are on {DB2}"),
    ],
)
def test_what_cannot_be_placed_is_refused(endpoints, addresses, found, refused):
    """In particular an address that stands for all interfaces, or that no other machine reaches."""
    assert refused(placed, SEMISYNC, endpoints, addresses).found.startswith(found)


def test_nodes_of_a_cluster_need_a_network_of_all_sites(refused):
    """They dial each other by their own addresses, and so do DRBD's machines. Groups and managers are refused."""
    galera, overlaid = catalogue.topology("galera"), {"node1": Site(network="overlay")}
    by_ports = refused(placed, galera, {"node2": DB2}, {})
    group = refused(placed, catalogue.topology("group"), {"node2": DB2}, {}, "overlay")
    managed = refused(placed, catalogue.topology("drbd-ha"), {"node2": DB2}, {}, "overlay")
    both = refused(placed, SEMISYNC, {"replica": DB2}, ADDRESSES, "overlay")

    assert by_ports.found == "the nodes of galera cannot be on several sites by ports"
    assert by_ports.expected == "--site-network overlay"
    assert group.found == "the nodes of group cannot be on several sites"
    assert managed.found == "the nodes of drbd-ha cannot be on several sites"
    assert both.found == "--site-address with --site-network overlay"
    assert placed(galera, {"node2": DB2}, {}, "overlay")["node1"] == overlaid["node1"]


def test_emulated_disks_are_refused_on_sites(refused):
    """They need the machine of the command."""
    storage = {"replica": catalogue.topology("raid").storage["single"]}

    assert refused(LabRequest, SEMISYNC, "mariadb", "lab-a", storage=storage, sites=APART).found.startswith("--storage")


def test_an_engine_is_named_by_its_endpoint_or_a_context(monkeypatch, refused):
    """A context that Docker does not know is no engine."""
    monkeypatch.setattr(own_engine, "of_context", lambda *name: "ssh://ops@db2" if name == ("--", "db2") else "")

    assert docker_engine.endpoint_of("db2") == docker_engine.endpoint_of("ssh://ops@db2") == "ssh://ops@db2"
    assert refused(docker_engine.endpoint_of, "db3").found == "db3 is neither an endpoint nor a Docker context"


# --- the engines ------------------------------------------------------------------------------------------------------


@pytest.fixture
def apart(monkeypatch, tmp_path):
    """Return a function that gives things to the own engine and to that of another site, which may be silent (None)."""
    monkeypatch.setattr(lab_files, "FOLDER", tmp_path)
    monkeypatch.setattr(sites, "_silent", {})
    monkeypatch.setattr(sites, "_warned", set())
    text = "".join(
        f"{key}={value}\n" for key, value in sites.setting({**APART, "toxiproxy": THERE, "toxiproxy2": HERE}).items()
    )
    write_whole(lab_files.file_of("lab-a", lab_files.SETTINGS), f"LAB_OWNER={dead()}\n{text}".encode())

    def holds(here, there):
        own = Holding(here)
        monkeypatch.setattr(docker_engine, "client", lambda: own)
        other = None if there is None else Holding(there)

        def of_site(endpoint):
            assert endpoint == DB2
            if other is None:
                raise LabError(f"the site {DB2} does not answer", "an engine", f"DOCKER_HOST={DB2} docker version")
            return other

        monkeypatch.setattr(docker_engine, "of_site", of_site)

    return holds


def things(project_="lab-a"):
    return [Thing(project_, dead())], [Thing(project_, dead(), "replica"), Thing(project_, dead(), kind="volume")]


def test_what_a_lab_has_on_another_site_is_found_and_removed(apart):
    """Also after its command was killed: the settings, written first, remember the site."""
    here, there = things()
    apart(here, there)

    assert {one.labels[labels.SERVICE] for one in labels.containers("lab-a")} == {"source", "replica"}
    assert leftovers.left_behind() == ["lab-a"]
    leftovers.remove("lab-a")
    assert all(each.removed for each in (*here, *there))
    assert not lab_files.file_of("lab-a", lab_files.SETTINGS).exists()


def test_what_is_on_a_silent_site_is_not_called_gone(apart, refused, capsys):
    """What answers is removed; the file that names the site stays, and the next command removes the rest."""
    here, there = things()
    apart(here, None)
    error = refused(leftovers.remove, "lab-a")
    apart([], None)

    assert error.found == f"the site {DB2} does not answer: what lab-a has there is not removed (replica, toxiproxy)"
    assert all(each.removed for each in here) and lab_files.file_of("lab-a", lab_files.SETTINGS).exists()
    assert leftovers.sweep() == [] and lab_files.file_of("lab-a", lab_files.SETTINGS).exists()
    assert DB2 in refused(project.find, "lab-a").found
    assert f"warning: the site {DB2} does not answer; what labs have there is not seen" in capsys.readouterr().err
    sites._silent.clear()
    apart([], there)
    assert leftovers.sweep() == ["lab-a"] and all(each.removed for each in there)


def test_a_site_that_is_gone_for_good_is_forgotten_by_name(apart, refused):
    """What was not seen to go is named; a site that answers is not forgotten, and no other name is."""
    here, there = things()
    apart(here, there)
    # It was proved, so it is no leftover of a killed command.
    write_whole(lab_files.file_of("lab-a", lab_files.STATE), b"{}")
    answers = refused(down.down, "lab-a", forget=[DB2])
    unknown = refused(down.down, "lab-a", forget=["source"])
    apart(here, None)
    sites._silent.clear()
    said = []
    down.down("lab-a", said.append, forget=["replica"])

    assert answers.found == f"the site {DB2} answers"
    assert unknown.found.startswith("unknown site of lab-a")
    assert all(each.removed for each in here) and not lab_files.file_of("lab-a", lab_files.SETTINGS).exists()
    assert said[-1].startswith(f"not seen to go: replica, toxiproxy at {DB2}.")


def test_what_is_left_on_a_forgotten_site_is_a_leftover_once_a_command_uses_it(apart, monkeypatch):
    """No file of the lab names the site any more, so only a command that is given it looks there, and once."""
    _, there = things()
    apart([], there)
    lab_files.remove("lab-a")
    monkeypatch.setattr(sites, "_used", set())
    assert leftovers.sweep() == []
    sites.use([DB2])

    assert len(sites.clients()) == 2 and leftovers.sweep() == ["lab-a"] and all(each.removed for each in there)


def test_a_node_on_a_silent_site_is_told_with_the_site(apart, refused):
    """It is not said to be missing."""
    apart(things()[0], None)
    lab = Lab("lab-a", SEMISYNC, "mariadb", {})

    assert refused(lambda: lab.service("replica").container).found == (
        f"replica of lab-a is not seen: the site {DB2} does not answer"
    )


def test_a_name_that_is_in_use_on_another_site_is_refused(apart, refused):
    """Compose would take over what has it."""
    apart([], [Thing("lab-new", None, "db")])

    assert refused(labels.refuse_taken, "lab-new", ["", DB2]).found.startswith(
        "lab-new is a Compose project that is not"
    )
    labels.refuse_taken("lab-new")


def test_a_silent_site_is_not_asked_again_by_the_same_command(apart, monkeypatch):
    """Each question would wait for an answer."""
    apart([], None)
    with pytest.raises(LabError):
        sites.client(DB2)
    monkeypatch.setattr(docker_engine, "of_site", lambda _endpoint: pytest.fail("it was asked again"))

    assert list(sites.silent("lab-a")) == [DB2]


# --- images -----------------------------------------------------------------------------------------------------------


def with_images(monkeypatch, known, arch="amd64"):
    def get(name):
        if name not in known:
            raise ImageNotFound(name)
        return known[name]

    return SimpleNamespace(
        images=SimpleNamespace(get=get),
        version=lambda: {"Arch": arch, "Version": "26.1"},
        info=lambda: {"DockerRootDir": "/var/lib/docker"},
    )


def image(identifier, recipe=None):
    found = Image({RECIPE: recipe} if recipe else {})
    found.id, found.attrs = identifier, {"Size": 500 * 10**6}
    return found


def test_only_images_that_a_site_lacks_are_loaded_there(monkeypatch, refused):
    """The same recipe is the same image, also where the engine gives it another ID; another processor is refused."""
    own = with_images(monkeypatch, {"a": image("1", "x"), "b": image("2"), "c": image("3", "new"), "d": image("4")})
    there = with_images(monkeypatch, {"a": image("9", "x"), "b": image("2"), "c": image("3b", "old")})
    monkeypatch.setattr(docker_engine, "client", lambda: own)
    monkeypatch.setattr(docker_engine, "of_site", lambda _endpoint: there)
    loaded = []
    monkeypatch.setattr(site_images, "_copy", lambda site_, names: loaded.append((site_, names)))
    monkeypatch.setattr(machine, "free_megabytes", lambda _there: None)

    site_images.bring(DB2, ["a", "b", "c", "d"])
    site_images.bring(DB2, ["a", "b"])
    site_images.bring("", ["d"])

    assert loaded == [(DB2, ["c", "d"])]
    there.version = lambda: {"Arch": "arm64", "Version": "26.1"}
    assert "has the processor arm64" in refused(site_images.bring, DB2, ["d"]).found


def test_images_that_do_not_fit_on_the_disk_of_a_site_are_refused_before_they_are_loaded(monkeypatch, refused):
    """The image that reads the free space there is loaded first."""
    own = with_images(monkeypatch, {name: image(name) for name in ("a", machine.READER)})
    monkeypatch.setattr(docker_engine, "client", lambda: own)
    monkeypatch.setattr(docker_engine, "of_site", lambda _endpoint: with_images(monkeypatch, {}))
    loaded = []
    monkeypatch.setattr(site_images, "_copy", lambda _site, names: loaded.append(names))
    monkeypatch.setattr(machine, "free_megabytes", lambda _there: 499 if loaded else None)

    error = refused(site_images.bring, DB2, ["a", machine.READER])

    assert loaded == [[machine.READER]]
    assert error.found == f"499 MB free on the disk of /var/lib/docker at the site {DB2}"
    assert error.expected == "500 MB to load a"


def test_every_site_gets_the_images_of_its_nodes_and_of_what_stands_beside_them(monkeypatch):
    """Each site all of them: a drill starts its lab without `lab up`."""
    brought = {}
    monkeypatch.setattr(site_images.images, "ensure", lambda _names: None)
    monkeypatch.setattr(site_images, "bring", lambda site_, names: brought.update({site_: names}))
    galera, db3 = catalogue.topology("galera"), "tcp://10.1.0.3:2375"
    at = placed(galera, {"node2": DB2, "node3": db3}, {}, "overlay")
    site_images.bring_all(LabRequest(galera, "mariadb", "lab-g", sites=at))

    names = [f"replication-lab/{name}" for name in ("mariadb", "toxiproxy", "clients", "sidecar")]
    assert brought == {DB2: names, db3: names}


# --- the link ---------------------------------------------------------------------------------------------------------


class Trips:
    """A probe whose round trips take as long as a network and the toxics on its link."""

    def __init__(self, link, bare_ms):
        self.link, self.bare_ms = link, bare_ms

    def pings(self, count=5):
        return [self.bare_ms + self.link.latency_ms()] * count


def test_a_toxic_adds_only_what_the_real_network_lacks(latency):
    """Also if that is less than half of what was asked for."""
    link = FakeLink("source-replica")
    link.crosses_sites, link.latency_step_ms = True, 0.001
    toxic_calibration.calibrated(link, latency(20, 20), Trips(link, 30.0))

    assert link.latency_ms() == pytest.approx(10, abs=0.5)


def test_a_round_trip_below_that_of_the_network_is_refused(latency, refused):
    """No toxic makes a network faster."""
    link = FakeLink("source-replica")
    link.crosses_sites = True

    error = refused(toxic_calibration.calibrated, link, latency(20, 20), Trips(link, 60.0))

    assert "takes 60 ms without a toxic" in error.found and error.next_step == "--toxic source-replica=none"


def test_a_port_is_another_one_for_each_node():
    """In the order of the topology."""
    assert [site.port_of(FANOUT, node.name) for node in FANOUT.nodes] == [20001, 20002, 20003][: len(FANOUT.nodes)]


# --- faults of sites --------------------------------------------------------------------------------------------------

THREE = catalogue.topology("semisync-3")


def test_a_site_is_all_of_its_nodes_and_the_links_that_lead_out_of_it(apart):
    """A link within a site is not cut; on one engine each node is a site."""
    apart([], [])
    at = {"source": HERE, **{node.name: THERE for node in THREE.replicas}}
    write_whole(
        lab_files.file_of("lab-three", lab_files.SETTINGS), f"LAB_SITES={sites.setting(at)[sites.SITES]}".encode()
    )
    lab, alone = (Lab(name, THREE, "mariadb", {}) for name in ("lab-three", "lab-alone"))
    first, second = (node.name for node in THREE.replicas)

    assert site_faults.nodes_of_sites(lab, [first]) == [first, second]
    assert site_faults.nodes_of_sites(alone, [first]) == [first]
    assert site_faults.links_out(lab, [first, second]) == [link.name for link in THREE.links]
    assert site_faults.links_out(catalogue_lab("chain"), ["relay", "leaf"]) == ["source-relay"]


def catalogue_lab(topology):
    return Lab(f"lab-{topology}", catalogue.topology(topology), "mariadb", {})
