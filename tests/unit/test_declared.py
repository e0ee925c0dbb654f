"""Has an experiment of ten lines what it does not say, and is it UNKNOWN without what its cases name?"""

import pytest
from replication_lab import experiments
from replication_lab.faults.toxic_calibration import clear
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.verdict import Verdict
from replication_lab.model.experiment.experiment import Preset
from replication_lab.model.lab.topology import Topology
from replication_lab.workloads.inserts import Inserts
from replication_lab.world import catalogue, own

HEAD = '''\
"""Does a commit wait?"""
from dataclasses import dataclass
from replication_lab import Case, Inserts, claim, experiment, p50, rtt, throughput

'''
ROUND_TRIP = """\
alone = {"replication": "async"}
near, far = Case("near", settings=alone, links="lan"), Case("far", settings=alone, links="85ms")
semi = Case("far, and waited for", links="85ms", settings={"replication": "semisync", "clients": 4})
experiment(
    topology="semisync",
    cases=[near, far, semi],
    load=Inserts(rows=20),
    claims=[
        claim(throughput(far) / throughput(near) >= 0.8, "a commit waits for no replica"),
        claim((p50(semi) / rtt(semi)).equals(within=0.1), "it takes a round trip"),
    ],
)
"""
RATE = """\
slow = Case("slow", links="100mbit+20ms")
experiment(topology="async", cases=[slow], load=Inserts(rows=20), claims=[claim(p50(slow) <= 20, "it is fast")])
"""

STARTED = """\
cases: {started: {topology: async, start: {innodb_io_capacity: "300"}}}
claims: {fast: {sentence: it is fast, relation: latency_p50_ms(started) ≤ 20}}
"""
BESIDE = """\
presets:
  short: {max_rounds: 4, sizes: {rows: "{few}"}, cases: [slow]}
claims:
  slow-enough: {sentence: it is fast, relation: "latency_p50_ms(slow) ≤ {most}"}
"""


@pytest.fixture
def declared(tmp_path, monkeypatch):
    """Load an experiment that a file of a project declares."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab" / "experiments").mkdir(parents=True)
    own._folder_from.cache_clear()

    def load(text: str):
        (tmp_path / "lab" / "experiments" / "waits.py").write_text(HEAD + text)
        return experiments.load("waits")

    yield load
    own._folder_from.cache_clear()


def links_of(topology: Topology) -> list[str]:
    return [link.name for link in topology.links]


def test_what_a_file_does_not_say_is_known(declared):
    """Its name, question, presets, engines, and the ids of its claims."""
    found = declared(ROUND_TRIP)

    assert (found.name, found.question) == ("waits", "Does a commit wait?")
    assert [claim.id for claim in found.claims] == ["claim-1", "claim-2"]
    assert found.engines == tuple(catalogue.engines_for(catalogue.topology("semisync")))
    assert found.default_engines == ("mariadb",) and list(found.presets) == ["quick", "full"]


def test_the_file_beside_it_has_claims_and_presets(declared, tmp_path):
    """They follow those of Python, and take the place of the presets that an experiment has by default."""
    (tmp_path / "lab" / "experiments" / "waits.yaml").write_text(BESIDE)
    found = declared(RATE.replace("experiment(", "experiment(words={'most': 20, 'few': 3}, "))

    assert [claim.id for claim in found.claims] == ["claim-1", "slow-enough"]
    assert found.claims[1].relation.text == "latency_p50_ms(slow) ≤ 20"
    assert found.presets == {"short": Preset("short", max_rounds=4, sizes={"rows": 3}, cases=("slow",))}


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("{max_round: 4}", "unknown key of preset short 'max_round'; did you mean max_rounds?"),
        ("{max_rounds: many}", "preset short: Expected `int`, got `str`"),
    ],
)
def test_a_preset_with_what_none_has_is_refused(declared, tmp_path, preset, said):
    """Before anything is measured."""
    (tmp_path / "lab" / "experiments" / "waits.yaml").write_text(f"presets: {{short: {preset}}}")
    with pytest.raises(LabError) as error:
        declared(RATE)

    assert said in str(error.value)


def test_each_case_is_arranged_and_proved_as_it_says(declared, ran):
    """Its condition is on every link, its replication is set, and its clients are as many as it says."""
    found = declared(ROUND_TRIP)
    summary, record, _ = ran(found)

    assert [claim.reason for claim in summary.claims if claim.verdict is not Verdict.HOLDS] == []
    assert {toxic.toxic for each in record.of("mariadb", "far") for toxic in each.faults} == {"85ms"}
    assert any(
        "acknowledged every commit" in proof.what for proof in record.of("mariadb", found.cases[2].name)[0].proofs
    )
    assert found.workload(found.cases[2], found.preset("quick")) == Inserts(rows=20, clients=4)


def test_a_lab_that_is_started_with_variables_keeps_them(declared, tmp_path, ran):
    """A case restarts no server that has them already, and proves them over its load."""
    (tmp_path / "lab" / "experiments" / "waits.yaml").write_text(STARTED)
    summary, record, _ = ran(declared("experiment(topology='async', load=Inserts(rows=20))"))
    proved = {proof.what for each in record.of("mariadb", "started") for proof in each.proofs if proof.ok}

    assert [claim.verdict for claim in summary.claims] == [Verdict.HOLDS]
    assert "source has innodb_io_capacity=300 (innodb_io_capacity=300 line 2)" in proved
    assert [lab.about for lab in record.labs("mariadb")] == ["async, with innodb_io_capacity=300"]


def test_a_load_may_keep_its_latencies_out_of_the_record(declared, ran):
    """Its quantiles suffice for a claim; thousands of latencies in each measurement make a record large."""
    text = RATE.replace("rows=20", "rows=20, keeps_samples=False")
    summary, record, _ = ran(declared(text))

    assert [claim.verdict for claim in summary.claims] == [Verdict.HOLDS]
    assert all("latency_ms" not in each.samples and each.figures["latency_p50_ms"] for each in record.measurements)


def test_a_condition_that_is_missing_during_a_load_is_unknown(declared, ran):
    """As in every experiment."""
    summary, _, _ = ran(declared(ROUND_TRIP), meanwhile=lambda lab, _: clear(lab.link("source-replica")))

    assert {claim.verdict for claim in summary.claims} == {Verdict.UNKNOWN}


def test_a_condition_with_a_rate_is_proved_as_a_fault_is(declared, ran):
    """Round trips during the load cannot prove a rate."""
    summary, record, _ = ran(declared(RATE))
    proofs = [proof for each in record.measurements for proof in each.proofs if "100mbit" in proof.what]

    assert [claim.verdict for claim in summary.claims] == [Verdict.HOLDS]
    assert proofs and all(proof.ok for proof in proofs)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Inserts(rows=20)", "Slow()", "the load Slow has no field `clients`"),
        ("experiment(\n", "for _ in (1, 2): experiment(\n", "the file declares two experiments"),
        ('"semisync", "clients"', '"semysync", "clients"', "unknown replication 'semysync'"),
        ('topology="semisync"', 'topology="async"', "not set up for semi-sync"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_starts(declared, refused, old, new, said):
    """With the line of the file."""
    slow = "@dataclass\nclass Slow:\n    def run(self, lab, seed): ...\n\n"
    error = refused(declared, slow + ROUND_TRIP.replace(old, new))

    assert said in error.found and error.found.startswith("lab/experiments/waits.py:")
