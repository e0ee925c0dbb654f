"""Any fault that others take off for a moment ends in UNKNOWN with the time and the cause, wherever there is one."""

import re

import msgspec
import pytest
from replication_lab import faults
from replication_lab.model.core.verdict import Verdict
from replication_lab.runner import drill_set
from replication_lab.world import catalogue, clock

from tests.lab.taken_off import TAKEN_OFF

SECONDS = (1, 3, 8)
# A condition is a toxic; each drill names it as one.
SAME = {"condition": "toxic"}
# In `make test`: one of each kind that needs neither a machine nor an array, on two labs; those of disks and machines
# are sabotaged there by test_raid_sabotage and test_drbd.
SHORT = {
    *(("single", kind) for kind in ("clock", "cpu", "kill", "memory", "pause", "restart", "stop")),
    ("single", "backup-lock"),
    *(("async", kind) for kind in ("cut", "flap", "toxic")),
    *(("async", kind) for kind in ("applier-stop", "receiver-stop", "applier-error", "applier-delay")),
    ("async", "switchover"),
}
# The guests of machines make what happens to packets; taking it off and back is not a command that a person types.
# A manager that promotes a replica ends its delay by itself, so the delay is no obligation after the source was killed.
NOT = {("drbd", "packets"), ("semisync", "applier-delay")}


def kind_of(spec):
    toxic = spec.settings.get("toxic")
    return "packets" if toxic and catalogue.toxic(toxic).of_packets else spec.fault


def known():
    """Return the drill of each topology and kind of fault: one without a manager and other faults, if there is one."""
    found = {}
    for topology, drills in sorted(drill_set.known().items()):
        for drill in sorted(drills, key=_burden):
            for spec in drill.fault_specs:
                found.setdefault((topology, kind_of(spec)), drill.name)
    return {pair: name for pair, name in found.items() if pair not in NOT}


def _burden(drill):
    return bool(drill.manager), len(list(drill.fault_specs)), sum(step.seconds for step in drill.steps)


def cases():
    """Return each of these for each length; a lab is started once where its drills are together."""
    return [
        pytest.param(
            *pair,
            name,
            seconds,
            marks=[] if pair in SHORT and seconds == SECONDS[0] else pytest.mark.long,
            id="-".join((*pair, str(seconds))),
        )
        for pair, name in sorted(known().items())
        for seconds in SECONDS
    ]


def test_each_kind_of_fault_is_taken_off_somewhere():
    """A new one needs its sabotage."""
    assert {SAME.get(kind, kind) for kind in faults.kinds()} <= {kind for _, kind in known()} <= TAKEN_OFF.keys()


@pytest.mark.parametrize(("topology", "kind", "name", "seconds"), cases())
def test_a_fault_that_others_take_off_for_a_moment_is_unknown(drilled, monkeypatch, topology, kind, name, seconds):
    """It acts when it is looked at, both times."""
    # A replica that is killed as soon as it starts may lose its relay log, and does not replicate any more.
    monkeypatch.setattr("replication_lab.runner.drill.WHOLE_SECONDS", 60)
    drill = drill_set.load(topology, name)
    spec = next(each for each in drill.fault_specs if kind_of(each) == kind)
    within, cause = TAKEN_OFF[kind]

    def meanwhile(lab):
        with within(lab, spec):
            clock.pause(seconds)

    # Few rows: a replica on a busy machine takes long to apply many.
    few = {node: 1 for node in drill.clients}
    brief = msgspec.structs.replace(drill.with_duration(0.5), before=0.2, after=0.1, clients=few, think_ms=20)
    result = drilled(topology, name, meanwhile=meanwhile, as_drill=brief, put_back=True)

    assert {one.verdict for one in result.judgements} == {Verdict.UNKNOWN}
    assert re.search(rf"at \d+\.\d s [^;]*{re.escape(cause)}", "; ".join(result.doubts)), result.doubts
    evidence = result.evidence
    contrary = [each.at for one in evidence.observations for each in one.contrary if cause in each.what]
    for acted in evidence.acted[:1]:
        assert acted.held - 1 <= min(contrary) <= acted.healed + 1
