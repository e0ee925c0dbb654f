"""Is a node that has left its cluster told from one whose status can be read?"""

from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world.mysql.galera import GaleraNode

STATUS = {
    "wsrep_ready": "ON",
    "wsrep_local_state_comment": "Synced",
    "wsrep_cluster_status": "Primary",
    "wsrep_cluster_size": "3",
    "wsrep_cluster_conf_id": "7",
    "wsrep_cluster_state_uuid": "u",
    "wsrep_last_committed": "12",
    "wsrep_local_cert_failures": "0",
    "wsrep_local_bf_aborts": "0",
    "wsrep_flow_control_paused_ns": "2000000",
    "wsrep_local_recv_queue": "5",
    "wsrep_flow_control_sent": "9",
    "wsrep_local_send_queue": "4",
    "wsrep_evs_repl_latency": "0.001/0.002/0.004/0.001/5",
    "wsrep_incoming_addresses": "node1:3306,node2:3306,node3:3306",
}


class Server:
    """A server that reports some of the variables."""

    name = "node1"

    def __init__(self, without=""):
        self.without = without

    def rows(self, _statement):
        return [{"Variable_name": name, "Value": value} for name, value in STATUS.items() if name != self.without]


def test_the_status_of_a_member_is_read():
    """Times of replication become milliseconds."""
    status = GaleraNode(Server()).status()

    assert status.synced and (1.0, 2.0, 4.0) == status.replication_ms and 2.0 == status.paused_ms
    assert (5, 9, 4) == (status.queue, status.stops, status.unsent)


@pytest.mark.parametrize("without", ["wsrep_local_state_comment", "wsrep_evs_repl_latency"])
def test_a_node_that_is_leaving_is_in_no_cluster(without):
    """While the provider is unloaded, SHOW STATUS returns only some variables of the cluster."""
    with pytest.raises(LabError, match="node1 is not in a Galera cluster"):
        GaleraNode(Server(without)).status()


def test_the_options_of_the_library_are_read_from_its_own_text():
    """As Galera 26.4 writes them, with one that has no value."""
    text = "evs.send_window = 512; gcomm.thread_prio = ; evs.user_send_window = 256; "
    server: Any = SimpleNamespace(settings=lambda name: {name: text})

    assert GaleraNode(server).provider_options() == {
        "evs.send_window": "512",
        "gcomm.thread_prio": "",
        "evs.user_send_window": "256",
    }
