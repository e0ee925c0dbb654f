"""Are the rounds of a run shared among sites so that what is compared was measured at one, and sites are blocks?"""

import threading

import numpy as np
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.noise import WAIT
from replication_lab.model.core.statistics import NoInterval, Plan, interval_of_mean, interval_of_ratio
from replication_lab.model.experiment.case import LabSpec
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.experiment.run_request import RunRequest
from replication_lab.runner import rounds
from replication_lab.runner import world as runs_world
from replication_lab.world import catalogue, journal
from replication_lab.world.docker import reach
from replication_lab.world.host import BOOT, MachineFiles
from scipy.special import stdtrit

from tests.unit.synthetic_runs import FAR, order, tiny

DB2 = "tcp://10.1.0.2:2375"
OPEN = Claim("open", "the near one is as fast as itself", throughput("none") / throughput(FAR) >= 1.0)


def at_sites(fake_world, runs, experiment, sites):
    """Run an experiment at sites; return its record and the world."""
    world = fake_world()
    book = journal.Journal(experiment.name, runs=runs)
    rounds.Run(
        RunRequest(experiment, ["mariadb"], "quick", 7, WAIT, sites=sites), book, world, lambda _line: None
    ).run()
    return book.record, world


def test_each_round_is_measured_at_one_site_and_sites_take_turns(fake_world, runs):
    """So a ratio never divides figures of different machines; each site has a lab of its own."""
    record, world = at_sites(fake_world, runs, tiny(OPEN, least=4, most=4), ("", DB2))

    assert record.sites == {1: "", 2: DB2, 3: "", 4: DB2}
    assert {(n, case) for n, case in order(record)} == {(n, case) for n in (1, 2, 3, 4) for case in ("none", FAR)}
    assert len(world.came_up) == len(world.taken_down) == 2
    assert [lab.about for lab in record.labs("mariadb")] == ["semisync", f"semisync, at {DB2}"]


def test_a_claim_takes_the_site_as_a_block(fake_world, runs):
    """Its interval has the degrees of freedom that the sites leave."""
    record, _ = at_sites(fake_world, runs, tiny(OPEN, least=4, most=4), ("", DB2))
    found = OPEN.relation.quantity.interval(record, "mariadb", 0.95)

    assert (found.n, found.blocks) == (4, 2)
    assert found.half_after(4) == pytest.approx((np.log(found.high) - np.log(found.low)) / 2)


def test_what_only_differs_between_sites_does_not_widen_an_interval():
    """Of 1, 3 here and 101, 103 there the mean is 52, and the 95 % interval 52 ± 4.303 · √2 / 2."""
    found = interval_of_mean([1.0, 101.0, 3.0, 103.0], 0.95, ["", DB2, "", DB2])
    half = 4.3027 * np.sqrt(2 * (1 / 2 + 1 / 2)) / 2
    ratio = interval_of_ratio([(1, 2), (4, 2), (1.1, 2), (4.4, 2)], 0.95, ["", DB2, "", DB2])

    assert (found.low, found.estimate, found.high) == pytest.approx((52 - half, 52, 52 + half), abs=1e-3)
    assert ratio.estimate == pytest.approx(1.0488, abs=1e-4) and 0.8 < ratio.low < ratio.high < 1.4


def test_a_site_with_more_quiet_rounds_counts_as_one_site():
    """The estimate is the mean of the sites' means."""
    found = interval_of_mean([1.0, 2.0, 3.0, 10.0], 0.95, ["", "", "", DB2])

    assert found.estimate == pytest.approx(6)


def test_as_many_rounds_as_sites_give_no_interval():
    """One round of a site has no spread."""
    with pytest.raises(NoInterval, match="an interval over 2 sites needs more than 2 rounds"):
        interval_of_mean([1.0, 2.0], 0.95, ["", DB2])


@pytest.mark.parametrize("sites", [2, 3])
def test_looks_at_rounds_of_several_sites_keep_the_risk(sites):
    """20 000 runs with nothing to be found, and sites that differ by ten times the noise: at most 5 % decide."""
    plan, dice = Plan(3, 8, 0.05), np.random.default_rng(7)
    at = np.arange(8) % sites
    decided = np.zeros(20_000, bool)
    shift = dice.normal(0, 10, (20_000, sites))
    # A claim is about the mean of the sites.
    values, truth = dice.normal(0, 1, (20_000, 8)) + shift[:, at], shift.mean(axis=1)
    for n in range(sites, 9, sites):
        if n < plan.min_rounds or n == sites:
            continue
        parts = [values[:, :n][:, at[:n] == each] for each in range(sites)]
        within = sum(((part - part.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for part in parts) / (n - sites)
        error = np.sqrt(within * sum(1 / part.shape[1] for part in parts)) / sites
        middle = np.mean([part.mean(axis=1) for part in parts], axis=0)
        decided |= middle - stdtrit(n - sites, (1 + plan.level) / 2) * error > truth

    assert decided.mean() <= plan.alpha


def test_sites_on_one_machine_are_known_by_its_boot(monkeypatch):
    """Two engines there share their CPUs, so they are measured one after the other."""
    boots = {"": "a", "tcp://one": "a", "tcp://two": "b", "tcp://three": "b"}
    monkeypatch.setattr(reach, "machine_files", lambda *_, site: MachineFiles({BOOT: boots[site]}))

    found = reach.first_on_its_machine(["tcp://one", "tcp://two", "tcp://three"])

    assert found == {"": "", "tcp://one": "", "tcp://two": "tcp://two", "tcp://three": "tcp://two"}


def test_sites_on_different_machines_are_measured_at_the_same_time(fake_world, runs, monkeypatch):
    """A round at one site begins before that of the other has ended."""
    world, both = fake_world(), threading.Barrier(2, timeout=20)
    world.machines = lambda sites: {site: site for site in sites}
    book = journal.Journal("tiny", runs=runs)
    run = rounds.Run(
        RunRequest(tiny(OPEN, least=4, most=4), ["mariadb"], "quick", 7, WAIT, sites=("", DB2)),
        book,
        world,
        lambda _line: None,
    )
    original = run._round

    def round_(number, chosen):
        both.wait()
        return original(number, chosen)

    monkeypatch.setattr(run, "_round", round_)
    run.run()

    assert book.record.sites == {1: "", 2: DB2, 3: "", 4: DB2}


def test_a_lab_that_needs_the_commands_own_engine_is_refused_at_another_site():
    """Virtual machines are started on this machine only; the same lab without a site is taken."""
    machines = catalogue.topology("drbd")
    runs_world._refuse_elsewhere(machines, LabSpec("drbd", "mariadb"))

    with pytest.raises(LabError, match="this lab needs the command's own engine") as refused:
        runs_world._refuse_elsewhere(machines, LabSpec("drbd", "mariadb", site=DB2))
    assert refused.value.next_step == "./lab run --help"
