"""Are bad disks refused before anything starts, and are a spindle's answers understood?"""

from collections import namedtuple

import pytest
from docker.errors import APIError
from replication_lab.model.lab.disk import Disk, Limits, check_size, parse_disks
from replication_lab.world import catalogue, clock
from replication_lab.world.disks.spindle import Settings, Spindle, Stats, arguments, settings_of
from replication_lab.world.requests_made import SENDER

Done = namedtuple("Done", "exit_code output")
SETTINGS = "read_us=2500 write_us=625 flush_us=8333 bandwidth=0 follow_us=1000 write_cache=on cache_bytes=33554432\n"
STATS = "reads=1 writes=2 flushes=3 errors=4 read_bytes=5 written_bytes=6 dirty_bytes=7 busy_us=8 clock_us=9 failed=1\n"
REFUSED = "spindle: error flush_us=-1; expected a whole number of microseconds from 0 to 10000000\n"


class Container:
    """A container whose control gives prepared answers, and stores the questions."""

    name, status = "lab-disk1", "running"

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def exec_run(self, words, environment):
        assert environment == {"SPINDLE_BY": SENDER}
        self.asked.append(words)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reload(self):
        pass

    def logs(self):
        """Of two power cuts; the second one ends the container."""
        cuts = [b"spindle: power cut, 4096 bytes of unflushed blocks lost\n"]
        if self.status == "exited":
            cuts.append(b"spindle: power cut, 8192 bytes of unflushed blocks lost\n")
        return b"".join(cuts)


# --- limits and named disks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["read_iops", "write_iops", "bandwidth"])
@pytest.mark.parametrize("figure", [0, -1])
def test_a_limit_of_nothing_is_refused(refused, name, figure):
    """Zero and less stop a disk for good; no limit at all is said by leaving it out."""
    error = refused(Limits, **{name: figure})

    assert error.found == f"{name} of a disk is {figure}"
    assert "1 or more, or no value for no limit" in error.expected


def test_a_negative_flush_is_refused_and_a_free_one_is_not(refused):
    """A disk without a volatile cache has nothing to flush."""
    assert Limits(flush_us=0).flush_us == 0
    assert refused(Limits, flush_us=-1).found == "flush_us of a disk is -1"


@pytest.mark.parametrize("size", [0, -4096, 4095, 4097])
def test_a_size_that_is_no_disk_is_refused(refused, size):
    """Whole blocks of 4096 bytes, and at least one."""
    assert refused(check_size, size).found == f"the size of a disk is {size} bytes"
    assert refused(arguments, Limits(), size).expected.startswith("a multiple of 4096")


@pytest.mark.parametrize(
    ("limits", "found"),
    [("{read_iops: 0}", "read_iops of a disk is 0"), ("{iops: 1}", "unknown field `iops`"), ("{read_iops: x}", "`int")],
)
def test_a_file_with_a_mistake_is_refused(refused, limits, found):
    """The key or the figure that is wrong is in the error."""
    assert found in refused(parse_disks, f"a: {{about: x, because: y, limits: {limits}}}").found


def test_each_named_disk_says_where_its_figures_come_from():
    """Those of the published measurements and of today are there, with limits that can be set."""
    disks = catalogue.disks()

    assert {"sata-7200", "ebs-2013", "ssd"} <= set(disks)
    for disk in disks.values():
        assert disk.about and disk.because and arguments(disk.limits, 1 << 30)


def test_the_named_disks_follow_from_the_published_figures():
    """The arithmetic of the file's comments: 343 × 16 writes, 798 × 16 reads, the middle of 3900–4300, one turn."""
    ebs, sata = catalogue.disk("ebs-2013").limits, catalogue.disk("sata-7200").limits

    assert (ebs.write_iops, ebs.read_iops) == (343 * 16, 798 * 16)
    assert (sata.write_iops, sata.flush_us) == ((3900 + 4300) // 2, round(60e6 / 7200))
    tenth, shared = catalogue.disk("ebs-2013-tenth").limits, catalogue.disk("ebs-2013-tenth-shared").limits
    assert (tenth.write_iops, tenth.read_iops) == (round(343 * 1.6), round(798 * 1.6))
    assert (shared.write_iops, shared.read_iops) == (round(499 * 16 / 20), round(798 * 16 / 20))


def test_a_disk_that_is_not_named_is_refused(refused):
    """With the nearest name that is."""
    assert "did you mean sata-7200?" in refused(catalogue.disk, "sata-7300").found
    assert isinstance(catalogue.disk("ssd"), Disk)


# --- a spindle --------------------------------------------------------------------------------------------------------


def test_limits_become_the_costs_of_a_request():
    """A rate is the time of one request; no limit is no cost."""
    limits = Limits(read_iops=400, write_iops=1600, bandwidth=10**8, flush_us=8333, write_cache=True)

    assert arguments(limits, 1 << 30) == [
        "size=1073741824", "read_us=2500", "write_us=625", "flush_us=8333", "bandwidth=100000000", "write_cache=on",
    ]  # fmt: skip
    assert settings_of(Limits()) == {"read_us": 0, "write_us": 0, "flush_us": 0, "bandwidth": 0, "write_cache": False}


def test_settings_and_stats_are_read_from_the_answers():
    """Every word of an answer has its place."""
    container = Container(Done(0, SETTINGS.encode()), Done(0, STATS.encode()))
    spindle = Spindle(container)

    assert spindle.settings() == Settings(2500, 625, 8333, 0, 1000, True, 33554432)
    assert spindle.stats() == Stats(1, 2, 3, 4, 5, 6, 7, 8, 9, True)
    assert container.asked == [["spindle", "settings"], ["spindle", "stats"]]


def test_changes_are_sent_together():
    """So that a mistake in one of them changes none."""
    container = Container(Done(0, SETTINGS.encode()), Done(0, SETTINGS.encode()))
    Spindle(container).set(write_us=625, write_cache=False)
    Spindle(container).limit(Limits(read_iops=400))

    assert container.asked[0] == ["spindle", "set", "write_us=625", "write_cache=off"]
    assert container.asked[1][:3] == ["spindle", "set", "read_us=2500"]


def test_faults_are_one_command_each():
    """Fail, heal, and the sector to corrupt."""
    container = Container(*[Done(0, b"\n")] * 3)
    spindle = Spindle(container)
    spindle.fail()
    spindle.heal()
    spindle.corrupt(4096)

    assert [words[1:] for words in container.asked] == [["fail"], ["heal"], ["corrupt", "4096"]]


def test_a_refusal_passes_on_the_spindles_words(refused):
    """What it found, and what it expected."""
    error = refused(Spindle(Container(Done(1, REFUSED.encode()))).set, flush_us=-1)

    assert error.found == "lab-disk1 refused: flush_us=-1"
    assert error.expected == "a whole number of microseconds from 0 to 10000000"


@pytest.mark.parametrize(
    "answer", [Done(2, b"spindle: /run/spindle/control: No such file"), APIError("409", explanation="is not running")]
)
def test_a_disk_that_does_not_answer_is_named(refused, answer):
    """Whether its container or its process is gone, with the command that shows why."""
    error = refused(Spindle(Container(answer)).stats)

    assert "the disk lab-disk1 does not answer: " in error.found
    assert error.next_step == "docker logs lab-disk1"


def test_a_power_cut_is_waited_for():
    """It is over when the container has ended, whether or not an answer came back."""
    container = Container(Done(0, STATS.encode()), APIError("gone"))
    container.reload = lambda: setattr(container, "status", "exited")
    assert Spindle(container).power_cut() == 8192

    assert container.asked[-1] == ["spindle", "power-cut"]


def test_a_power_cut_that_did_not_happen_is_an_error(monkeypatch, refused):
    """Neither one of a disk that was gone before, nor one that leaves the disk running."""
    monkeypatch.setattr(clock.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr("replication_lab.world.disks.spindle.POWER_CUT_SECONDS", 0.01)

    assert "does not answer" in refused(Spindle(Container(APIError("not running"))).power_cut).found
    assert (
        "container lab-disk1 to exit"
        in refused(Spindle(Container(Done(0, STATS.encode()), Done(0, b""))).power_cut).found
    )


def test_a_disk_that_ends_without_a_power_cut_is_an_error(refused):
    """Such as one that somebody stops at that moment: it has written its cache back."""
    container = Container(Done(0, STATS.encode()), APIError("gone"))
    container.reload = lambda: setattr(container, "status", "exited")
    container.logs = lambda: b"spindle: power cut, 4096 bytes of unflushed blocks lost\n"

    assert refused(Spindle(container).power_cut).found == "lab-disk1 ended, and not by a power cut"
