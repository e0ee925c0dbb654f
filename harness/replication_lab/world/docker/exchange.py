"""Another server on a node's data: the node's container is made again from another image, with the same volumes."""

from collections.abc import Sequence

from replication_lab.model.lab.server_name import text_of_nodes
from replication_lab.world import lab_files, requests_made
from replication_lab.world.docker import mixed, project, servers, site_images
from replication_lab.world.docker.lab import Lab
from replication_lab.world.docker.service import Node
from replication_lab.world.files import write_whole


def exchange(lab: Lab, name: str, text: str, keep: Sequence[str]) -> None:
    """Stop a node's server, and start the server of that text (an engine, or ENGINE:VERSION) on the same data.

    `keep` are files that the new container gets before its server starts, if the old one has them: they are not on a
    volume. It returns when the new container runs. Its server may still be starting, or refuse the data.
    """
    node = lab.node(name)
    site_images.bring(node.site, [servers.image_of(text)])
    kept = {path: content for path in keep if (content := node.text_of(path))}
    lab.exchanged[name] = text
    hosts = {each: _own_host(lab.node(each)) for each in lab.exchanged}
    differing = mixed.overlay(lab.topology, text_of_nodes(lab.servers_of_nodes), project.compose_file(lab), hosts)
    write_whole(lab_files.file_of(lab.name, lab_files.SERVERS), differing.encode())
    node.stop()
    with requests_made.noted(requests_made.EXCHANGE, name):
        project.make_again(lab, name)
    lab.refresh()
    for path, content in kept.items():
        lab.node(name).put(path, content.encode())
    lab.node(name).start_again()


def _own_host(node: Node) -> str:
    """Return the name of a node's host; empty for a node in the network of its sidecar, whose name it has."""
    return str(node.container.attrs["Config"]["Hostname"]) if node.network() is node.container else ""
