"""What a cluster's node and its sidecar refuse before anything starts, with the reason in their last line."""

import pytest
from replication_lab.world import catalogue

from tests.images.conftest import PATIENCE_S

START = catalogue.IMAGES / "mariadb" / "galera-start"
SETTINGS = {"LAB_NODE": "node1", "LAB_MEMBERS": "node1 localhost", "MYSQL_ROOT_PASSWORD": "secret"}


def refusal(loose_image, image, environment, **options):
    """Return the exit code and the last line of a container that must end by itself."""
    container = loose_image(image, environment=environment, cap_drop=["ALL"], **options)
    code = container.wait(timeout=PATIENCE_S)["StatusCode"]
    return code, container.logs().decode().strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"LAB_SST": "xtrabackup"}, "LAB_SST is 'xtrabackup'; expected mariabackup or rsync"),
        ({"LAB_NODE": "node9"}, "node9 is not one of LAB_MEMBERS (node1 localhost)"),
        ({"LAB_MEMBERS": "node1 nowhere"}, "LAB_MEMBERS names nowhere, which has no address on this network"),
    ],
)
def test_a_node_refuses_settings_that_make_no_cluster(loose_image, changed, said):
    """Nothing was begun, joined or written."""
    mounted = {str(START): {"bind": "/usr/local/bin/galera-start", "mode": "ro"}}
    code, line = refusal(
        loose_image,
        "replication-lab/mariadb",
        {**SETTINGS, **changed},
        entrypoint=["bash", "/usr/local/bin/galera-start"],
        volumes=mounted,
        hostname="node1",
    )

    assert code == 1 and line.endswith(said)


def test_a_sidecar_refuses_a_node_without_a_number(loose_image):
    """The ports of its links are made of it."""
    code, line = refusal(
        loose_image,
        "replication-lab/sidecar",
        {"LAB_NODE": "first", "LAB_PEERS": "localhost"},
        cap_add=["NET_ADMIN"],
        extra_hosts={"toxiproxy": "127.0.0.1"},
    )

    assert code == 1 and "first does not end in a number from 1 to 9" in line
