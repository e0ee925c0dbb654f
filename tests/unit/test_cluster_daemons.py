"""Is a cluster daemon that aborts started again while the cluster forms, and is one that keeps failing given up?"""

import re
import subprocess

import pytest
from replication_lab.world import catalogue

SCRIPT = catalogue.IMAGES / "vm" / "guest" / "cluster"


@pytest.mark.parametrize(
    ("daemon", "starts", "status"),
    [
        ("[[ $(wc -l <starts) == 2 ]] || kill -ABRT $$", 2, 0),
        ("kill -ABRT $$", 3, 134),
        ("exit 0", 1, 0),
    ],
    ids=["aborts once", "aborts always", "ends by itself"],
)
def test_a_cluster_daemon_that_fails_is_started_at_most_three_times(tmp_path, daemon, starts, status):
    """corosync has aborted while two busy machines formed their membership; one that ends with status 0 was stopped."""
    functions = "\n".join(re.findall(r"^STARTS=\d+|^keep_running\(\) \{.*?^\}", SCRIPT.read_text(), re.M | re.S))
    (tmp_path / "corosync").write_text(f"#!/bin/bash\necho >>starts\n{daemon}\n")
    (tmp_path / "corosync").chmod(0o755)
    said = subprocess.run(
        ["bash", "-c", f"{functions}\nis_member() {{ true; }}\nkeep_running ./corosync"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert status == said.returncode
    assert starts == len((tmp_path / "starts").read_text().splitlines())
    assert starts - 1 == said.stdout.count("it is started again")
