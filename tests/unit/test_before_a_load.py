"""Is what the lab still arranged before a load no doubt about the load, and what lasts into it one?"""

from contextlib import closing
from types import SimpleNamespace

from replication_lab.witnesses import sampled
from replication_lab.witnesses.sampled import AtWork, Sampled
from replication_lab.world import clock


def test_a_replica_that_read_past_its_link_before_the_load_is_no_doubt(monkeypatch):
    """The case before let it; a reading that began before the load may have seen that one. Other things count."""
    monkeypatch.setattr(sampled, "EVERY_SECONDS", 0.01)
    answers, lab = [[AtWork("it read past its link"), "it was set"]], SimpleNamespace()
    lab.another = lambda: lab
    before = clock.timer()
    with closing(
        Sampled("it is so", lab, {"node1": lambda _: answers.pop() if answers else []}, lambda *_: "it")
    ) as seen:
        clock.wait_until(lambda: seen.observation(before).contrary, "a reading", 5, every=0.1)

        after = [each.what for each in seen.observation(clock.timer()).contrary]
        all_through = [each.what for each in seen.observation(before).contrary]

    assert after == ["it was set"] and all_through == ["it read past its link", "it was set"]
