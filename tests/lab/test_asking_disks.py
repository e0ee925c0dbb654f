"""A question about emulated disks is answered by real servers; limits that are changed during a load are detected."""

import json
import secrets

import pytest
from replication_lab import experiments
from replication_lab.lab import up
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.lab.lab_request import LabRequest
from replication_lab.model.question.question import Question
from replication_lab.world import catalogue, signals
from replication_lab.world.disks import array, overlay
from replication_lab.world.docker import images, project
from replication_lab.world.journal import read

from tests.lab.sabotage import judgement_of
from tests.lab.test_asking import found_in

# Disks are measured, and compared with their limits.
pytestmark = [pytest.mark.long, pytest.mark.alone]

ASKED = experiments.asked(
    Question(topologies=["semisync"], vary={"sync_binlog": ["0", "1"]}, settings={"source.disk": "plain-200"})
)


@pytest.fixture(scope="module")
def on_a_disk(docker):
    """Yield the lab that the question needs."""
    spec = ASKED.lab_of(ASKED.cases[0])
    topology, storage = catalogue.topology(spec.topology), dict(spec.storage)
    images.ensure(up.image_names("mariadb", load=True, topology=topology, storage=storage))
    placed, name = overlay.with_backend(storage), f"test-{secrets.token_hex(4)}"
    lab = project.start(LabRequest(topology, "mariadb", name, load=True, storage=placed))
    yield lab
    with signals.signals_held():
        lab.down()


def test_levels_are_measured_each_on_its_own_lab(command):
    """Every measurement on disks proves their limits; the one without has no such proof."""
    answer = command(
        *("ask", "semisync", "--vary", "source.storage=none,raid1", "--disk", "source=plain-200"),
        *("--duration", "1", "--runs", "3", "--margin", "100%", "--noise", "accept", "--json"),
    )
    found = json.loads(answer.stdout)
    _, record = read(found_in(answer.stderr))
    proved = {m.case: {proof.what for proof in m.proofs if "disk" in proof.what} for m in record.measurements}

    assert found["doubts"] == [], answer.stderr
    assert [lab.about for lab in record.labs("mariadb")] == ["semisync", "semisync, source on raid1 of 2 plain-200"]
    assert not proved["source.storage=none"]
    assert {"source-disk1 keeps its limits", "source-disk2 keeps its limits"} <= proved["source.storage=raid1"]
    # Each commit needs writes of a disk that does 200 a second; without emulated disks it does not.
    fast, slow = (
        min(m.figures["latency_p50_ms"] for m in record.of("mariadb", f"source.storage={level}"))
        for level in ("none", "raid1")
    )
    assert slow > 5 > fast


def test_nothing_is_doubted_while_nobody_meddles(on_a_disk, tmp_path):
    """The counter-check."""
    _, doubts = judgement_of(ASKED, "throughput:sync_binlog=1", on_a_disk, lambda lab: None, tmp_path)

    assert "disk" not in doubts


def test_limits_that_somebody_changes_during_the_load_are_unknown(on_a_disk, tmp_path):
    """The sabotage: the disk does twice as many writes a second."""

    def faster(lab):
        disk = array.array(lab, "source").disk("disk1")
        disk.limit(catalogue.disk("plain-400").limits)

    judged, _ = judgement_of(ASKED, "throughput:sync_binlog=1", on_a_disk, faster, tmp_path)

    assert judged.verdict is Verdict.UNKNOWN
    assert "no other command changed the disks of source" in judged.reason
