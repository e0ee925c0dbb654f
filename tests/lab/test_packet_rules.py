"""Are the packet rules of a killed Docker engine found on a real host, and does the printed command delete them?"""

import os
import shutil
import subprocess
import sys

import pytest

STALE = "POSTROUTING -s 172.30.0.0/16 ! -o br-0123456789ab -j MASQUERADE"
# A network of its own, in which nothing but this rule exists. No bridge of Docker is in it.
PROGRAM = f"""
import subprocess
from replication_lab.world.packets import packet_rules
subprocess.run("iptables -t nat -A {STALE}", shell=True, check=True)
(found,) = packet_rules.stale()
print(found.rewrites_sources, found.subnet)
print(found.delete)
subprocess.run(found.delete, shell=True, check=True)
print(packet_rules.stale())
"""
ABLE = os.geteuid() == 0 and shutil.which("unshare") and shutil.which("iptables")


@pytest.mark.skipif(not ABLE, reason="needs root, unshare and iptables")
def test_a_rule_for_a_bridge_that_is_gone_is_found_and_deleted_by_the_printed_command():
    """In a network namespace: the rules of this host are not touched."""
    ended = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert ended.stdout.splitlines() == ["True 172.30.0.0/16", f"iptables -t nat -D {STALE}", "[]"], ended.stderr
