"""Every claim that the presets of the experiments on disks decide comes out as it is known to."""

import pytest

from tests.claims.decidable import decidable

# The first test of an experiment waits for the whole run.
pytestmark = pytest.mark.timeout(2400)

LEAST = (("raid_replica", "mariadb"),)
# In `make test` a run ends once the published figure is decided. `make claims` also judges whether RAID0 catches up,
# which needs a steady load of 16 s in each round.
BRIEFLY = ("raid0-writes-more",)
# What appliers do differs by engine.
QUICK = (
    ("raid0_disks", "mariadb"),
    *((name, engine) for name in ("raid_replica", "raid_appliers") for engine in ("mariadb", "mysql-8.0")),
)


def pytest_generate_tests(metafunc):
    """Make quick runs of all if all engines are requested, as `make claims` does; else least ones."""
    everything = metafunc.config.getoption("lab_engine") == "all"
    preset, runs = ("quick", QUICK) if everything else ("least", LEAST)
    claims = {asked: decidable(asked[0], preset, asked[1]) for asked in runs}
    if not everything:
        claims = {asked: [claim for claim in found if claim in BRIEFLY] for asked, found in claims.items()}
    rows = [(*asked, preset, tuple(found), claim) for asked, found in claims.items() for claim in found]
    ids = [f"{name}-{engine}-{preset}-{claim}" for name, engine, *_, claim in rows]
    metafunc.parametrize(("name", "engine", "preset", "claims", "claim"), rows, ids=ids)


def test_claim_comes_out_as_expected(comes_out, judged, name, engine, preset, claims, claim):
    """A verdict that changed fails; `comes_out` says what becomes of one that could not be reached."""
    row = next(row for row in judged(name, engine, preset, claims).claims if row.id == claim)

    comes_out(row)
