"""Does the lab speak Toxiproxy's API, and pass on its words when it refuses?"""

import io
import json
from types import SimpleNamespace

import msgspec
import pytest
import requests
from replication_lab.model.lab.topology import Link
from replication_lab.model.lab.toxic import LINK_RATE, ToxicBody
from replication_lab.world import catalogue
from replication_lab.world.docker.lab import Lab
from replication_lab.world.packets.link import RunningLink
from replication_lab.world.packets.namespace import Beside, Guest
from replication_lab.world.packets.pinger import Echo
from replication_lab.world.packets.toxiproxy import Toxiproxy
from requests.adapters import BaseAdapter

from tests import traffic

BODY = ToxicBody("far", "latency", "downstream", {"latency": 42})
# What Toxiproxy answers where it is.
FAR = json.dumps([msgspec.to_builtins(BODY)])
METRICS = """# TYPE toxiproxy_proxy_received_bytes_total counter
toxiproxy_proxy_received_bytes_total{direction="downstream",listener="[::]:21002",proxy="a",upstream="s:3306"} 100
toxiproxy_proxy_received_bytes_total{direction="upstream",listener="[::]:21002",proxy="a",upstream="s:3306"} 1.5e+06
toxiproxy_proxy_sent_bytes_total{direction="upstream",listener="[::]:21002",proxy="a",upstream="s:3306"} 7
"""


class Api(BaseAdapter):
    """Toxiproxy's side of HTTP: answers (status, text) by "METHOD path", and remembers what it was sent."""

    def __init__(self, answers):
        super().__init__()
        self.answers, self.sent = answers, []

    def send(self, request, **_options):
        name = f"{request.method} {request.path_url}"
        self.headers = request.headers
        if request.path_url.startswith("/changes"):
            # Another's image has no such list.
            status, text = self.answers.get(name, (404, "404 page not found"))
        else:
            self.sent.append((name, json.loads(request.body) if request.body else None))
            status, text = self.answers.get(name, (204, ""))
        answer = requests.Response()
        answer.status_code, answer.raw, answer.url = status, io.BytesIO(text.encode()), request.url
        return answer

    def close(self):
        pass


@pytest.fixture
def linked(monkeypatch):
    """Return a link at a Toxiproxy with given answers: (link, api). No script ever changed its packets."""
    for namespace in (Beside, Guest):
        monkeypatch.setattr(namespace, "run_if_used", lambda *_: "")

    def make(answers=None, proxies=("a",)):
        toxiproxy, api = Toxiproxy("127.0.0.1:8474"), Api(answers or {})
        toxiproxy._session.mount("http://", api)
        model = Link("a", "[::]:1", "target:3306", "source", "target", proxies)
        link = RunningLink(model, None, lambda _node: None)
        link.__dict__["toxiproxy"] = toxiproxy
        return link, api

    return make


OWN = (200, json.dumps({"began": 1, "now": 2.5, "count": 0, "changes": [], "toxics": ["exact_latency"]}))


def test_the_labs_own_image_delays_by_microseconds(linked):
    """Milliseconds go in and come out, in the direction and under the name that they were given."""
    exact = {"latency_us": 42_125, "jitter_us": 2000}
    there = {**msgspec.to_builtins(BODY), "type": "exact_latency", "attributes": exact}
    link, api = linked({"GET /changes?since=2147483648": OWN, "GET /proxies/a/toxics": (200, json.dumps([there]))})
    body = msgspec.structs.replace(BODY, attributes={"latency": 42.125, "jitter": 2})
    link.add(body)

    assert api.sent[-1] == ("POST /proxies/a/toxics", there)
    assert link.toxics() == [body] and repr(link.toxics()[0].attributes["jitter"]) == "2"
    assert (link.latency_ms(), link.latency_step_ms) == (42.125, 0.001)


@pytest.mark.parametrize("answer", [(404, "not found"), (200, '{"began": 1, "now": 2, "count": 0, "changes": []}')])
def test_another_toxiproxy_or_an_older_one_delays_by_whole_milliseconds(linked, answer):
    """It would refuse the toxic, and fractions."""
    link, api = linked({"GET /changes?since=2147483648": answer})
    link.add(msgspec.structs.replace(BODY, attributes={"latency": 42.6}))

    assert api.sent[-1][1]["type"] == "latency"
    assert (api.sent[-1][1]["attributes"], link.latency_step_ms) == ({"latency": 43}, 1)


def test_a_toxic_is_sent_as_the_body_of_the_api(linked):
    """Name, type, stream, attributes and toxicity, to the link's own proxy."""
    link, api = linked({"GET /proxies/a/toxics": (200, FAR)})
    link.add(BODY)
    link.remove("far")

    body = {"name": "far", "type": "latency", "stream": "downstream", "attributes": {"latency": 42}, "toxicity": 1.0}
    assert api.sent[0] == ("POST /proxies/a/toxics", body)
    assert api.sent[-1] == ("DELETE /proxies/a/toxics/far", None)


RATE = ToxicBody("narrow", LINK_RATE, "downstream", {"rate": 100})
COUNTED = """link_bandwidth_bytes_total{link="a/narrow"} 1.499998e+06
link_bandwidth_bytes_total{link="a/narrower"} 7
"""


def rate_on_a_port(**changes):
    body = msgspec.structs.replace(RATE, attributes={"rate": 100, **changes})
    return (200, json.dumps([msgspec.to_builtins(body)]))


def test_the_rate_of_a_link_has_one_name_on_all_ports(linked):
    """Its ports share it by that name, also the one that the far end dials, whose streams are the other way round."""
    link, api = linked(proxies=("a", "a-sql", "a-back"))
    link.add(RATE)
    posted = {path: (body["stream"], body["attributes"]) for path, body in api.sent}
    attributes = {"rate": 100, "link": "a/narrow"}

    assert posted == {
        "POST /proxies/a/toxics": ("downstream", attributes),
        "POST /proxies/a-sql/toxics": ("downstream", attributes),
        "POST /proxies/a-back/toxics": ("upstream", attributes),
    }


@pytest.mark.parametrize(("link_of_sql", "shared"), [("a/narrow", True), ("a-sql/narrow", False), (None, False)])
def test_ports_share_a_rate_only_under_one_name(linked, link_of_sql, shared):
    """A port with another name, or with Toxiproxy's own toxic in its place, has a rate of its own."""
    on = {
        "GET /proxies/a/toxics": rate_on_a_port(link="a/narrow"),
        "GET /proxies/a-sql/toxics": rate_on_a_port(**({"link": link_of_sql} if link_of_sql else {})),
    }
    link, _ = linked(on, ("a", "a-sql"))

    assert link.shares(RATE) is shared


def test_what_a_link_has_carried_is_read_from_the_metrics(linked):
    """By the whole name; nothing where the rate has never been."""
    link, _ = linked({"GET /metrics": (200, COUNTED)})

    assert link.carried(RATE) == 1_499_998
    assert link.carried(msgspec.structs.replace(RATE, name="other")) == 0


def test_a_toxiproxy_without_a_rate_of_a_link_is_an_error_that_says_so(linked, refused):
    """It refuses the toxic; the error says what is missing, and another refusal stays as it is."""
    link, _ = linked({"POST /proxies/a/toxics": (400, '{"error":"invalid toxic type","status":400}')})

    assert "narrow limits the whole link, but this lab's Toxiproxy can limit only single connections" in (
        refused(link.add, RATE).found
    )
    assert "invalid toxic type" in refused(link.add, BODY).found


def test_what_is_done_to_a_link_is_done_to_all_of_its_ports(linked):
    """A toxic goes on every proxy of the link, and comes off those that it is on, even where one has lost it."""
    link, api = linked({"GET /proxies/a/toxics": (200, "[]"), "GET /proxies/a-sql/toxics": (200, FAR)}, ("a", "a-sql"))
    link.add(BODY)
    link.remove("far")

    changes = [name for name, _ in api.sent if not name.startswith("GET")]
    assert changes == ["POST /proxies/a/toxics", "POST /proxies/a-sql/toxics", "DELETE /proxies/a-sql/toxics/far"]
    assert [BODY] == link.toxics()


def test_of_what_the_target_dials_the_streams_are_the_other_way_round(linked):
    """What goes out on a link comes in on a connection that was dialled from the other end."""
    link, api = linked(proxies=("a", "a-back"))
    link.add(BODY)

    assert [("POST /proxies/a/toxics", "downstream"), ("POST /proxies/a-back/toxics", "upstream")] == [
        (name, body["stream"]) for name, body in api.sent
    ]


def test_a_toxic_is_read_in_the_direction_of_its_link(linked):
    """Otherwise a recovery would put it back the other way round."""
    back = json.dumps([msgspec.to_builtins(BODY.reversed())])
    link, _ = linked({"GET /proxies/a/toxics": (200, FAR), "GET /proxies/a-back/toxics": (200, back)}, ("a", "a-back"))

    assert [BODY] == link.toxics()


def test_a_link_with_one_port_off_is_not_whole(linked):
    """A link is on only when all of its ports are."""
    on, off = (200, '{"enabled": true}'), (200, '{"enabled": false}')

    assert linked({"GET /proxies/a": on, "GET /proxies/a-sql": on}, ("a", "a-sql"))[0].enabled()
    assert not linked({"GET /proxies/a": on, "GET /proxies/a-sql": off}, ("a", "a-sql"))[0].enabled()


def test_a_link_is_cut_when_none_of_its_ports_is_on(linked):
    """One that was forgotten lets everything through."""
    on, off = (200, '{"enabled": true}'), (200, '{"enabled": false}')

    assert linked({"GET /proxies/a": off, "GET /proxies/a-drbd": on}, ("a", "a-drbd"))[0].lets_through()
    assert not linked({"GET /proxies/a": off, "GET /proxies/a-drbd": off}, ("a", "a-drbd"))[0].lets_through()


def test_a_toxic_is_there_when_it_is_on_every_port(linked):
    """On the probe's alone it would be measured, and do nothing."""
    far = (200, FAR)
    both = {"GET /proxies/a/toxics": far, "GET /proxies/a-drbd/toxics": far}
    one = both | {"GET /proxies/a-drbd/toxics": (200, "[]")}

    assert linked(both, ("a", "a-drbd"))[0].carries({"far"})
    assert not linked(one, ("a", "a-drbd"))[0].carries({"far"})


def test_a_link_is_cut_and_healed(linked):
    """Cutting switches the proxy off; what it says of itself is believed."""
    link, api = linked({"GET /proxies/a": (200, '{"enabled": false}')})
    link.cut()

    assert api.sent[0] == ("POST /proxies/a", {"enabled": False})
    assert link.enabled() is False


def test_requests_do_not_look_like_a_browser_and_ask_no_proxy(linked):
    """Toxiproxy refuses browsers, and a company's proxy knows nothing of loopback."""
    link, api = linked({"GET /proxies/a/toxics": (200, "[]")})

    assert link.toxics() == []
    assert api.headers["User-Agent"].startswith("replication-lab/") and not link.toxiproxy._session.trust_env


def test_a_refusal_passes_on_toxiproxys_words(linked, refused):
    """The request, the answer, and the command that lists the toxics."""
    link, _ = linked({"POST /proxies/a/toxics": (400, '{"error": "invalid toxic type"}\n')})
    error = refused(link.add, BODY)

    assert 'refused POST /proxies/a/toxics: {"error": "invalid toxic type"}' in error.found
    assert error.next_step == "./lab toxic"


def test_a_toxiproxy_that_does_not_answer_is_named(monkeypatch, refused):
    """The address is in the error, and so is the way to look."""

    def refuse(*_arguments, **_options):
        raise requests.ConnectionError("connection refused")

    monkeypatch.setattr(requests.Session, "request", refuse)
    error = refused(Toxiproxy("127.0.0.1:8474").proxies)

    assert "Toxiproxy at 127.0.0.1:8474 does not answer: connection refused" in error.found
    assert error.next_step == "./lab status"


def test_bytes_are_counted_both_ways():
    """What crossed a link is the sum of both directions, received only; an unknown link has carried nothing."""
    assert traffic.counted(METRICS, ("a",)) == 1_500_100
    assert traffic.counted(METRICS, ("b",)) == 0


# --- a lab's links ----------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(monkeypatch):
    """Make a lab of source and replica whose Toxiproxy also has an entry that a failover made."""
    lab = Lab("lab-async", catalogue.topology("async"), "mariadb", {})
    made = {"replica-source": {"listen": "[::]:22001", "upstream": "replica:3306"}}
    monkeypatch.setattr(Lab, "toxiproxy", SimpleNamespace(proxies=lambda: made))
    return lab


def test_a_link_knows_what_the_topology_says_of_it(pair):
    """Its far end is its source's server."""
    link = pair.link("source-replica")
    pair.all_containers.servers["source"] = "the source's server"

    assert link.model == pair.topology.link("source-replica") and link.name == "source-replica"
    assert link.far_end() == "the source's server"


def test_a_link_that_a_failover_made_is_found(pair, refused):
    """By the name of its entry; no other name is a link."""
    assert (pair.link("replica-source").model.target, pair.link("replica-source").model.port) == ("source", 22001)
    assert "unknown link of async 'nowhere'" in refused(pair.link, "nowhere").found


def test_the_far_end_of_a_machine_without_a_server_is_an_echo():
    """No database server answers there."""
    lab = Lab("lab-drbd", catalogue.topology("drbd"), "mariadb", {})

    assert isinstance(lab.link(lab.topology.links[0].name).far_end(), Echo)


def test_a_request_is_sent_once():
    """A toxic that was added twice would be refused, and a removal that was repeated would find nothing."""
    adapter = Toxiproxy("127.0.0.1:1")._session.get_adapter("http://127.0.0.1:1")

    assert vars(adapter)["max_retries"].total == 0
