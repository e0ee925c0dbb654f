"""Do the scripts of images/mha ask the servers for what MHA leaves to them, in the order that loses no writes?"""

import os
import subprocess

import pytest
from replication_lab.world import catalogue

MHA = catalogue.IMAGES / "mha"
FAKE_CLIENT = """#!/bin/bash
for argument in "$@"; do
    case $argument in
        --host=*) printf '%s: ' "${argument#--host=}" ;;
        --execute=*) printf '%s\\n' "${argument#--execute=}" ;;
    esac
done >>"$SAID"
"""

pytestmark = pytest.mark.whole


@pytest.fixture
def said(tmp_path):
    """Return what the script `activate` lets each server do, by its arguments."""
    client = tmp_path / "mysql"
    client.write_text(FAKE_CLIENT)
    client.chmod(0o755)

    def of(*arguments, semisync="1"):
        heard = tmp_path / "said"
        heard.write_text("")
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SAID": str(heard),
            "LAB_SEMISYNC": semisync,
            "LAB_MANAGER_PASSWORD": "secret",
        }
        subprocess.run([MHA / "activate", *arguments], env=environment, check=True)
        return heard.read_text().splitlines()

    return of


FAILOVER = ("--command=start", "--orig_master_host=source", "--new_master_host=replica1", "--new_master_port=3306")
PLANNED = ("--command=stop", "--orig_master_host=source", "--new_master_host=replica1")


def test_a_new_source_waits_for_its_replicas_before_it_takes_writes(said):
    """Otherwise the first commits after a failover would be on one server only."""
    assert said(*FAILOVER) == [
        "replica1: SET GLOBAL rpl_semi_sync_source_enabled = 1, GLOBAL rpl_semi_sync_replica_enabled = 0",
        "replica1: SET GLOBAL read_only = 0",
    ]


def test_without_semi_sync_nothing_is_said_about_it(said):
    """The server may have no such variables."""
    assert said(*FAILOVER, semisync="0") == ["replica1: SET GLOBAL read_only = 0"]


def test_a_planned_change_lets_the_old_source_refuse_writes_first(said):
    """What it accepted later would be missing on the new one."""
    assert said(*PLANNED)[0] == "source: SET GLOBAL read_only = 1"


@pytest.mark.parametrize("command", ["stop", "stopssh", "status"])
def test_a_lost_source_is_not_asked(said, command):
    """MHA calls the script for it too; a question to it would cost time, and the server is not to be changed."""
    assert said(f"--command={command}", "--orig_master_host=source") == []
