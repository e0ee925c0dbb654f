"""The start of a cluster's node: the source of its data, the node that it joins, and reasons to refuse."""

import os
import re
import subprocess
from datetime import datetime

import pytest
from replication_lab import replication
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import DATA
from replication_lab.probes.galera import wait_until_synced
from replication_lab.world import catalogue, lab_files
from replication_lab.world.clock import STALLED_SECONDS, wait_until
from replication_lab.world.mysql.galera import GaleraNode

from tests.lab.processes import check_no_password, processes_watched

# What a node decides at its start is tested on the image (tests/images/test_galera_start.py); here on whole clusters.
pytestmark = pytest.mark.long

APART = catalogue.COMPOSE / "engines" / "galera-start-apart"
NODES = ("node1", "node2", "node3")
TABLE = "CREATE TABLE IF NOT EXISTS lab.transferred (id INT AUTO_INCREMENT PRIMARY KEY, text LONGTEXT)"


@pytest.fixture(autouse=True)
def table(whole):
    """Create a table of these tests' own."""
    whole.node("node1").server().execute(TABLE)


def at_data_of(lab, node, script):
    """Run a script on the data directory and the cluster's volume of a node that may be stopped."""
    container = lab.node(node).container
    of_image = ("--entrypoint", "bash", container.image.id)
    answer = subprocess.run(
        ["docker", "run", "--rm", "--network=none", "--volumes-from", container.id, *of_image, "-ec", script],
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


def health_said(lab, node):
    container = lab.node(node).container
    container.reload()
    return [check["Output"] for check in container.attrs["State"]["Health"]["Log"]]


def rows(lab):
    replication.of(lab).wait_until_caught_up()
    return {lab.node(node).server().value("SELECT COUNT(*) FROM lab.transferred") for node in NODES}


def since_restart(lab, node):
    container = lab.node(node).container
    container.reload()
    started = datetime.fromisoformat(container.attrs["State"]["StartedAt"][:19] + "+00:00")
    return container.logs(since=int(started.timestamp())).decode(errors="replace")


def start_and_end(lab, node):
    """Start a node that must refuse; its exit code and its last lines."""
    lab.node(node).start_again()
    container = lab.node(node).container
    code = container.wait(timeout=STALLED_SECONDS)["StatusCode"]
    return code, lab.node(node).logs()


def test_a_node_that_was_away_for_long_gets_all_data_and_shows_progress(whole):
    """More was written than the others keep (gcache): SST, its progress in the health; interrupted, it starts over."""
    whole.node("node3").kill()
    wait_until(lambda: GaleraNode(whole.node("node1").server()).status().size == 2, "a cluster of two")
    # Many: what is kept is given up as the nodes tell each other, every some hundred writesets, how far they are.
    for _ in range(400):
        whole.node("node1").server().execute("INSERT INTO lab.transferred (text) VALUES (REPEAT('x', 50000))")
    whole.node("node3").start_again()
    wait_until(lambda: "Waiting for SST streaming" in since_restart(whole, "node3"), "its data to come in")
    whole.node("node3").kill()
    # A donor that still runs for the killed node would send its first file to the next start, which then fails.
    wait_until_synced([whole.node(name).server() for name in ("node1", "node2")], 2)
    whole.node("node3").start_again()
    seen = set()
    try:
        wait_until(
            lambda: seen.update(health_said(whole, "node3")) or whole.node("node3").is_healthy(), "node3 healthy"
        )
    except LabError:
        for name in NODES:
            print(f"--- {name}\n{whole.node(name).logs(60)}")
        raise

    assert any("MiB of data so far" in said for said in seen)
    assert "interrupted; starting over" in whole.node("node3").logs(lines=10_000)
    assert "mariabackup SST completed on joiner" in since_restart(whole, "node3")
    assert {400} == rows(whole)


def test_an_empty_node_joins_by_rsync_where_that_is_asked_for(whole, make_whole):
    """LAB_SST is the joiner's; its data directory was lost. No process of the cluster shows a password meanwhile."""
    whole.node("node3").kill()
    at_data_of(whole, "node3", f"find {DATA} -mindepth 1 -delete")
    docker_compose = ["docker", "compose", "--env-file", str(lab_files.file_of(whole.name, lab_files.SETTINGS))]
    with processes_watched() as seen:
        subprocess.run(
            [*docker_compose, "-f", "compose/galera.yaml", "up", "--detach", "--no-deps", "node3"],
            cwd=catalogue.ROOT,
            env={**os.environ, "LAB_SST": "rsync"},
            check=True,
            capture_output=True,
        )
        make_whole(whole)

    assert "wsrep_sst_rsync --role 'joiner'" in since_restart(whole, "node3")
    check_no_password(whole, seen, b"wsrep_sst_rsync")
    assert 1 == len(rows(whole))


def test_a_node_that_is_asked_where_it_is_just_as_it_joins_gets_its_data(whole):
    """Nodes of other sites ask while none serves. The last of these questions arrive when the node already joins."""
    asked_at = re.search(r"^TELLS_AT=(\d+)$", APART.read_text(), re.MULTILINE)
    asks = f"while :; do read -r -t 1 </dev/tcp/node2/{asked_at[1]} || sleep 0.01; done"
    whole.node("node2").kill()
    at_data_of(whole, "node2", f"find {DATA} -mindepth 1 -delete")
    whole.node("node3").container.exec_run(["timeout", "300", "bash", "-c", asks], detach=True)
    try:
        whole.node("node2").start_again()
        wait_until(whole.node("node2").is_healthy, "node2 healthy")
    finally:
        whole.node("node3").run("pkill", "--full", "^timeout 300 bash")

    assert "mariabackup SST completed on joiner" in since_restart(whole, "node2")


def test_a_node_with_others_data_is_refused(whole, make_whole):
    """With another cluster's data or none of a cluster it ends with the reason and the remedy; no data are overwritten.

    With its own data it joins as before.
    """
    whole.node("node3").kill()
    mine = at_data_of(whole, "node3", f"cat {DATA}/membership.log; echo other >{DATA}/membership.log").strip()
    of_another = start_and_end(whole, "node3")
    at_data_of(whole, "node3", f"rm {DATA}/membership.log; mv {DATA}/grastate.dat {DATA}/kept.dat")
    of_none = start_and_end(whole, "node3")
    others_are_well = GaleraNode(whole.node("node1").server()).status().synced
    at_data_of(whole, "node3", f"echo {mine} >{DATA}/membership.log; mv {DATA}/kept.dat {DATA}/grastate.dat")
    make_whole(whole)

    assert of_another[0] == of_none[0] == 1 and others_are_well
    assert "node3 holds data of another history" in of_another[1] and "remove its volume" in of_another[1]
    assert "never in a cluster" in of_none[1]
    assert "SST completed" not in since_restart(whole, "node3")


def test_after_all_died_nobody_goes_first_until_all_have_said_how_far_they_are(whole):
    """Two of three wait and name the third; told that it is lost, the most advanced leads: the same history goes on."""
    history = GaleraNode(whole.node("node1").server()).status().history
    for node in NODES:
        whole.node(node).kill()
    for node in NODES[:2]:
        whole.node(node).start_again()
    for node in NODES[:2]:
        wait_until(lambda node=node: "waits for node3 to report" in since_restart(whole, node), f"{node} to wait")
    assert not whole.node("node1").is_healthy()

    at_data_of(whole, "node3", "touch /cluster/node3.lost")
    wait_until(whole.node("node2").is_healthy, "node2 healthy")
    whole.refresh()
    views = [GaleraNode(whole.node(node).server()).status() for node in NODES[:2]]

    assert [(2, True, history)] * 2 == [(view.size, view.synced, view.history) for view in views]
    at_data_of(whole, "node3", "rm /cluster/node3.lost")
