"""The images beside the databases, and what no image may contain."""

import io
import socket
import socketserver
import tarfile
import threading
import timeit
from concurrent.futures import ThreadPoolExecutor

import docker
import pytest
import requests

from tests.images.conftest import LABEL, PATIENCE_S, build, until
from tests.images.engines import ENGINES, QUICK

TOXIPROXY = "replication-lab/toxiproxy"
LOAD = "replication-lab/load"
# Then Docker kills it, and its status says so.
GRACE_S = 10
# How often the connections are timed.
TIMES = 3


@pytest.fixture
def toxiproxy(loose_image):
    """Return the address of Toxiproxy's API."""
    container = loose_image(TOXIPROXY, ports={"8474/tcp": ("127.0.0.1", None)}, cap_drop=["ALL"])
    container.reload()
    address = f"http://127.0.0.1:{container.ports['8474/tcp'][0]['HostPort']}"

    def answers():
        try:
            return requests.get(f"{address}/version", timeout=2).ok
        except requests.ConnectionError:
            return False

    until(answers, "Toxiproxy to answer")
    return address


def test_toxiproxy_takes_a_latency_toxic(toxiproxy):
    """Toxiproxy answers with its version, makes a proxy and puts a latency toxic on it."""
    proxy = {"name": "replica", "listen": "0.0.0.0:3307", "upstream": "source:3306"}
    toxic = {"type": "latency", "stream": "upstream", "attributes": {"latency": 85}}
    requests.post(f"{toxiproxy}/proxies", json=proxy, timeout=2).raise_for_status()
    requests.post(f"{toxiproxy}/proxies/replica/toxics", json=toxic, timeout=2).raise_for_status()
    found = requests.get(f"{toxiproxy}/proxies/replica/toxics", timeout=2).json()

    assert "2.12.0" == requests.get(f"{toxiproxy}/version", timeout=2).json()["version"]
    assert [85] == [each["attributes"]["latency"] for each in found]


class Sender(socketserver.BaseRequestHandler):
    """Sends as many bytes as the connection's first line asks for."""

    def handle(self):
        self.request.sendall(bytes(int(self.request.makefile().readline())))


class Senders(socketserver.ThreadingTCPServer):
    daemon_threads = True


@pytest.fixture
def sender():
    """Yield the port of a server that sends what is asked for."""
    with Senders(("0.0.0.0", 0), Sender) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def received(address, size):
    """Receive so many bytes by a connection of one's own."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(f"{size}\n".encode())
        while size:
            size -= len(connection.recv(min(size, 1 << 16)))


@pytest.mark.parametrize(
    ("kind", "shared"), [("link_bandwidth", True), pytest.param("bandwidth", False, marks=pytest.mark.long)]
)
def test_toxiproxy_limits_the_sum_of_all_connections_of_a_link(loose_image, sender, kind, shared):
    """Four connections across two proxies carry the rate together; by Toxiproxy's own toxic each carries it alone."""
    rate, size, ports = 2500, 500_000, (3307, 3308)
    gateway = docker.from_env().networks.get("bridge").attrs["IPAM"]["Config"][0]["Gateway"]
    published = {f"{port}/tcp": ("127.0.0.1", None) for port in (8474, *ports)}
    container = loose_image(TOXIPROXY, "-host=0.0.0.0", "-proxy-metrics", ports=published, cap_drop=["ALL"])
    container.reload()
    address = {port: ("127.0.0.1", int(container.ports[f"{port}/tcp"][0]["HostPort"])) for port in (8474, *ports)}
    api = "http://{}:{}".format(*address[8474])
    until(lambda: container.exec_run(["/toxiproxy-cli", "list"]).exit_code == 0, "Toxiproxy to answer")
    attributes = {"rate": rate} | ({"link": "a-b/down"} if shared else {})
    toxic = {"name": "narrow", "type": kind, "stream": "downstream", "attributes": attributes}
    for port in ports:
        proxy = {"name": str(port), "listen": f"0.0.0.0:{port}", "upstream": f"{gateway}:{sender}"}
        requests.post(f"{api}/proxies", json=proxy, timeout=2).raise_for_status()
        requests.post(f"{api}/proxies/{port}/toxics", json=toxic, timeout=2).raise_for_status()

    def together() -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda each: received(address[ports[each % 2]], size), range(4)))

    # A busy machine makes some of them slower, and none faster.
    seconds = min(timeit.repeat(together, number=1, repeat=TIMES))

    alone = 4 * size / 1000 / rate
    assert (seconds >= 0.95 * alone) is shared, seconds
    carried = f'link_bandwidth_bytes_total{{link="a-b/down"}} {TIMES * 4 * size:g}'
    assert (carried in requests.get(f"{api}/metrics", timeout=2).text) is shared


def test_toxiproxy_image_can_check_itself(loose_image):
    """The client lies where a health check looks for it, in an image that has no shell."""
    container = loose_image(TOXIPROXY)

    until(lambda: container.exec_run(["/toxiproxy-cli", "list"]).exit_code == 0, "toxiproxy-cli list to succeed")


@pytest.fixture
def load(loose_image):
    return loose_image(LOAD, cap_drop=["ALL"])


@pytest.mark.parametrize("tool", ["sysbench", "fio", "mariadb", "mariadb-slap", "curl"])
def test_load_image_has(load, tool):
    """Each tool that a workload or a probe starts is there and runs."""
    code, output = load.exec_run([tool, "--version"])

    assert 0 == code, output


@pytest.mark.alone
def test_load_image_ends_at_once(load):
    """A container that waits for work ends at SIGTERM, and needs no SIGKILL."""
    load.stop(timeout=GRACE_S)

    assert load.wait(timeout=PATIENCE_S)["StatusCode"] == 0


IMAGES = [
    *(TOXIPROXY, LOAD, "replication-lab/maven"),
    *(ENGINES[name].image for name in QUICK),
    # No other test builds these unless all engines are asked for.
    *(pytest.param(each.image, marks=pytest.mark.long) for name, each in ENGINES.items() if name not in QUICK),
]


# Where the build mounts it, and where a bundle would have to lie to be trusted for good.
PLACES = ["/run/secrets/ca", "/usr/local/share/ca-certificates"]


@pytest.mark.parametrize("image", IMAGES)
def test_image_keeps_no_build_secret(client, image):
    """The CA bundle that was handed to the build is not in the image."""
    build(image)
    container = client.containers.create(image, labels={LABEL: "1"})
    try:
        found = [name for place in PLACES for name in files_with_content(container, place)]
    finally:
        container.remove()

    assert [] == found


def files_with_content(container, path):
    """Return the files with content at or under ``path`` of the container; none when there is no such path."""
    try:
        chunks, _ = container.get_archive(path)
    except docker.errors.NotFound:
        return []
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        return [member.name for member in tar if member.isfile() and member.size]
