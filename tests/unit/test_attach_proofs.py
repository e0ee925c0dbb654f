"""Is a link of an attached project proved by its alias, by its condition and by what crosses it?"""

from types import SimpleNamespace

import pytest
from replication_lab.attach import attach
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.containers import LabContainers

LINK, PROXY, APP = "app-db", "10.0.0.9", "10.0.0.3"


def container(address, *links):
    networks = {"shop": {"IPAddress": address, "Links": list(links)}}
    return SimpleNamespace(attrs={"NetworkSettings": {"Networks": networks}})


class Shop:
    """An attached project with one link from its application to its server; `log` is that of the link's Toxiproxy."""

    attached_link = AttachedLab.attached_link
    crossed_by, leads_through = AttachedLab.crossed_by, AttachedLab.leads_through

    def __init__(self, log="", resolved=(PROXY,), links=("shop-lab-app-db-1:db",)):
        link = SimpleNamespace(name=LINK, consumer="app", server="db", service="lab-app-db")
        self.attached = SimpleNamespace(links=[link], again="./lab attach --link app:db:3306")
        self.topology = SimpleNamespace(link=lambda _: link)
        self.all_containers = LabContainers("shop", lambda _: {"app": [container(APP, *links)]})
        self._resolved = list(resolved)
        proxy = SimpleNamespace(addresses=lambda: {PROXY}, logs=lambda _: log)
        self.service = lambda _: proxy

    def resolved(self, _name):
        return self._resolved


def accepted(address):
    return f'{{"message":"Accepted client","name":"app-db","client":"{address}:40001"}}\n'


@pytest.fixture
def proved(monkeypatch):
    """Return the proofs of a shop's links, whose condition is found as it is given."""
    monkeypatch.setattr(attach, "FLOW_SECONDS", 0)

    def prove(shop, condition_ok=True):
        condition = Proof(f"{LINK} is 40ms", "0.2 ms", condition_ok, "40 ms")
        monkeypatch.setattr(attach.up, "set_toxics", lambda *_: [condition])
        return attach.prove(shop, "40ms", lambda _: None)

    return prove


def test_a_link_that_its_application_uses_is_proved(proved):
    """By the name there, the condition, and a connection from the application's address."""
    assert [proof.ok for proof in proved(Shop(accepted(APP)))] == [True, True, True]


@pytest.mark.parametrize("log", ["", accepted("10.0.0.1"), "no JSON, Accepted client\n", '{"client":"10.0.0.3:1"}\n'])
def test_a_link_that_nothing_has_crossed_is_not_green(proved, log):
    """Sabotage: no connection at all, or only one of the lab's own; the command then ends with 2."""
    *_, flow = proved(Shop(log))

    assert not flow.ok and attach.is_unseen(flow)
    assert "app has opened no connection" in flow.found


@pytest.mark.parametrize(
    "shop",
    [
        Shop(accepted(APP), links=()),
        Shop(accepted(APP), links=("shop-lab-app-db-1:database",)),
        Shop(accepted(APP), resolved=["10.0.0.2"]),
        Shop(accepted(APP), resolved=[PROXY, "10.0.0.2"]),
    ],
    ids=["no alias", "another name", "the server itself", "one of two containers"],
)
def test_a_name_that_leads_past_the_lab_is_refused(proved, refused, shop):
    """Sabotage: the consumer would use the server directly, although connections have crossed."""
    assert "db is the lab's Toxiproxy in app" in refused(proved, shop).found


def test_a_link_without_its_condition_is_refused(proved):
    """And the project is restored."""
    with pytest.raises(LabError, match=r"app-db is 40ms: 0\.2 ms"):
        proved(Shop(accepted(APP)), condition_ok=False)


def test_a_project_whose_proof_fails_is_restored(monkeypatch):
    """By whatever it fails, Ctrl-C included."""
    restored = []
    shop = SimpleNamespace(compose=SimpleNamespace(project="shop"), links=[])
    monkeypatch.setattr(attach.images, "ensure", lambda _: None)
    monkeypatch.setattr(attach.override, "write", lambda *_: attach.folders.RUNS)
    monkeypatch.setattr(attach.owners, "owner", lambda: "me")
    monkeypatch.setattr(attach.attachments, "restore", restored.append)

    def interrupted(_attached):
        raise KeyboardInterrupt

    monkeypatch.setattr(attach.override, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        attach.attach(SimpleNamespace(attached=shop, kept=None, linked={}), "none", lambda _: None)
    assert restored == ["shop"]
