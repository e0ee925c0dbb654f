"""Is an address for ssh taken apart as Docker's client does, and nothing else handed to ssh?"""

import pytest
from replication_lab.world.docker import by_ssh


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("ssh://db2", ["ssh"]),
        ("ssh://ops@db2", ["ssh", "-l", "ops"]),
        ("ssh://ops@db2:2222", ["ssh", "-l", "ops", "-p", "2222"]),
    ],
)
def test_an_engine_is_dialled_by_ssh(host, words):
    """Without a question, which nobody could answer."""
    assert by_ssh.command(host) == [*words, "-o", "BatchMode=yes", "--", "db2", "docker", "system", "dial-stdio"]


@pytest.mark.parametrize("host", ["ssh://", "ssh://-oProxyCommand=x", "ssh://db2:port"])
def test_what_is_no_host_is_refused(refused, host):
    """It could be an option of ssh."""
    assert refused(by_ssh.command, host).found == f"DOCKER_HOST is {host}"
