"""The bytes that crossed a link, by Toxiproxy's metrics."""

import requests
from replication_lab.world.packets.link import RunningLink


def bytes_through(link: RunningLink) -> int:
    """Return the bytes of a link's ended connections, both ways; open ones excluded."""
    return counted(requests.get(f"http://{link.toxiproxy.address}/metrics", timeout=10).text, link.model.proxies)


def counted(metrics: str, proxies: tuple[str, ...]) -> int:
    """Return the bytes that these proxies received."""
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in metrics.splitlines()
        if line.startswith("toxiproxy_proxy_received_bytes_total{")
        and line.split('proxy="', 1)[1].split('"', 1)[0] in proxies
    )
