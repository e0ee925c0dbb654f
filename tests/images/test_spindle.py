"""The emulated disk: is it as slow as it was set to be, and does a power cut take what was not flushed and no more?"""

import errno
import json
import random
import statistics
import time

import pytest
from replication_lab.model.disk import Limits
from replication_lab.model.errors import LabError
from replication_lab.world.disks.spindle import Settings, Spindle, arguments

from tests.images.conftest import LABEL, PATIENCE_S, build, remove_container, until
from tests.images.nbd import Nbd, seconds

# What a disk or a CPU does is measured, and compared with its limit.
pytestmark = pytest.mark.alone

SPINDLE, LOAD = "replication-lab/spindle", "replication-lab/load"
MIB = 1 << 20
BLOCK = 4096
NEAR = 0.03
# As long as a busy machine may spoil one reading after the other.
DISTURBED_S = 20
CACHED = Limits(write_cache=True)
# As images/spindle does; what is refused is refused before a port is opened.
START = ("nbdkit", "--foreground", "/usr/local/lib/spindle.so", "file=/tmp/image")
AS_MADE = {"read_us": 0, "write_us": 0, "flush_us": 0, "bandwidth": 0, "follow_us": 1000, "write_cache": False}


class DiskContainer:
    """One spindle in its container: its control, and new connections to it."""

    def __init__(self, client, limits, size=64 * MIB, **options):
        options |= {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "labels": {LABEL: "1"}}
        self.container = client.containers.run(
            SPINDLE, arguments(limits, size), detach=True, ports={"10809/tcp": ("127.0.0.1", None)}, **options
        )
        self.control = Spindle(self.container)
        self.wait()

    def wait(self):
        until(self.answers, "the disk to answer")

    def answers(self):
        self.container.reload()
        if self.container.status == "exited":
            pytest.fail(f"the disk ended:\n{self.container.logs().decode()}")
        try:
            return self.control.settings()
        except LabError:
            return None

    def connect(self):
        self.container.reload()
        return Nbd(("127.0.0.1", int(self.container.ports["10809/tcp"][0]["HostPort"])))

    def start_again(self):
        self.container.wait(timeout=PATIENCE_S)
        self.container.start()
        self.wait()


@pytest.fixture(scope="module")
def make(client):
    """Start spindles: ``make(limits, **options)``."""
    build(SPINDLE)
    made = []

    def start(limits, **options):
        made.append(DiskContainer(client, limits, **options))
        return made[-1]

    yield start
    for each in made:
        remove_container(each.container)


@pytest.fixture(scope="module")
def one(make):
    return make(Limits())


@pytest.fixture
def disk(one):
    """Return a disk without costs or faults; all tests that leave it healthy share it."""
    one.control.heal()
    one.control.set(**AS_MADE)
    return one


@pytest.fixture
def cached(make):
    """Return a disk with a volatile write cache, of this test's own."""
    return make(CACHED)


@pytest.fixture(scope="module")
def fio(client, one):
    """Measure with fio for some seconds: requests per second of so many connections, half reads and half writes."""
    build(LOAD)
    container = client.containers.run(
        LOAD, detach=True, network_mode=f"container:{one.container.id}", labels={LABEL: "1"}
    )

    def measure(connections, seconds):
        said = container.exec_run(
            "fio --name=it --ioengine=nbd --uri=nbd://127.0.0.1 --rw=randrw --bs=4k --size=64m --thread --time_based "
            f"--group_reporting --runtime={seconds} --numjobs={connections} --output-format=json",
            demux=True,
        )
        text = said.output[0].decode()
        job = json.loads(text[text.index("{") :])["jobs"][0]
        return job["read"]["iops"] + job["write"]["iops"]

    yield measure
    remove_container(container)


def takes(act, expected, times=20):
    """Check that `act`, done again and again, usually takes the expected seconds, within 3 %.

    On a busy machine some take longer, and the disk catches up afterwards: so the median decides, and is read again
    if it was disturbed. Faster on the average than it was set to is something that no noise excuses.
    """
    medians, deadline = [], time.monotonic() + DISTURBED_S
    while time.monotonic() < deadline:
        readings = [seconds(act) for _ in range(times)]
        assert statistics.fmean(readings) >= (1 - NEAR) * expected, f"faster than {expected} s: {readings}"
        medians.append(statistics.median(readings))
        if abs(medians[-1] / expected - 1) <= NEAR:
            return
    pytest.fail(f"expected {expected} s, found {medians}")


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("iops", [100, pytest.param(400, marks=pytest.mark.long), 1600])
def test_one_connection_gets_the_requests_that_were_set(disk, iops):
    """A client that waits for each answer is answered that often a second, within 3 %: reads and writes alike."""
    disk.control.limit(Limits(read_iops=iops, write_iops=iops))
    with disk.connect() as nbd:
        takes(lambda: nbd.read(0, BLOCK), 1 / iops, iops // 8)
        takes(lambda: nbd.write(0, bytes(BLOCK)), 1 / iops, iops // 8)


@pytest.mark.parametrize("iops", [100, *(pytest.param(iops, marks=pytest.mark.long) for iops in (400, 1600))])
def test_sixteen_connections_share_one_arm(disk, fio, iops):
    """They get together what one would get, within 3 % by fio."""
    disk.control.limit(Limits(read_iops=iops, write_iops=iops))

    assert abs(fio(16, 1.5) / iops - 1) <= NEAR


def test_the_delays_of_the_emulation_would_show(disk):
    """Without making up for network and scheduler one connection is off by more than what is tolerated above."""
    disk.control.limit(Limits(read_iops=1600, write_iops=1600))
    disk.control.set(follow_us=0)
    with disk.connect() as nbd:
        assert statistics.median(seconds(lambda: nbd.read(0, BLOCK)) for _ in range(100)) > (1 + NEAR) / 1600


def test_reads_and_writes_have_costs_of_their_own(disk):
    """Slow reads do not slow writes down."""
    disk.control.set(read_us=20_000, write_us=5_000)
    with disk.connect() as nbd:
        takes(lambda: nbd.read(0, BLOCK), 0.020, 10)
        takes(lambda: nbd.write(0, bytes(BLOCK)), 0.005)


def test_a_flush_costs_what_it_was_set_to(disk):
    """A write with a flush takes both costs, and so does a write with forced unit access."""
    disk.control.set(write_us=2_000, flush_us=8_000)
    with disk.connect() as nbd:

        def commit():
            nbd.write(0, bytes(BLOCK))
            nbd.flush()

        takes(commit, 0.010)
        takes(lambda: nbd.write(0, bytes(BLOCK), fua=True), 0.010)


def test_large_requests_take_as_long_as_their_bytes(disk):
    """At 5 MB/s half a MiB takes a tenth of a second; a small request takes its own cost."""
    disk.control.set(read_us=5_000, bandwidth=5_000_000)
    with disk.connect() as nbd:
        takes(lambda: nbd.read(0, MIB // 2), MIB / 2 / 5_000_000, 5)
        takes(lambda: nbd.read(0, BLOCK), 0.005)


def test_an_idle_disk_saves_nothing_up(disk):
    """The first request after a rest takes its whole cost."""
    with disk.connect() as nbd:
        disk.control.set(read_us=50_000)

        assert seconds(lambda: nbd.read(0, BLOCK)) >= 0.05


def test_a_change_counts_from_the_next_request_on(disk):
    """A connection that was there before finds the disk four times as fast, then as slow as before."""
    with disk.connect() as nbd:
        for cost_us in (8_000, 2_000, 8_000):
            disk.control.set(read_us=cost_us)
            takes(lambda: nbd.read(0, BLOCK), cost_us / 1e6)


def test_stats_count_what_was_asked(disk):
    """Requests, bytes and the time that the arm was given work for."""
    disk.control.set(read_us=1_000, write_us=2_000, flush_us=3_000)
    before = disk.control.stats()
    with disk.connect() as nbd:
        nbd.read(0, 2 * BLOCK)
        nbd.write(0, bytes(3 * BLOCK))
        nbd.flush()
    after = disk.control.stats()

    names = ("reads", "writes", "flushes", "errors", "read_bytes", "written_bytes", "busy_us")
    assert [1, 1, 1, 0, 2 * BLOCK, 3 * BLOCK, 6_000] == [getattr(after, name) - getattr(before, name) for name in names]
    assert 6_000 <= after.clock_us - before.clock_us


# --- the volatile cache and power cuts --------------------------------------------------------------------------------


def test_a_power_cut_takes_what_was_not_flushed_and_no_more(cached):
    """Flushed stays, forced unit access stays, the rest of the same blocks is as it was before."""
    old, new = b"o" * 3 * BLOCK, b"n" * 2 * BLOCK
    with cached.connect() as nbd:
        nbd.write(0, old)
        nbd.flush()
        nbd.write(BLOCK // 2, new)
        nbd.write(BLOCK, b"f" * 512, fua=True)
        seen = nbd.read(0, 3 * BLOCK)
    cached.control.power_cut()
    cached.start_again()
    with cached.connect() as nbd:
        left = nbd.read(0, 3 * BLOCK)

    assert seen == old[: BLOCK // 2] + new[: BLOCK // 2] + b"f" * 512 + new[BLOCK // 2 + 512 :] + old[-BLOCK // 2 :]
    assert left == old[:BLOCK] + b"f" * 512 + old[BLOCK + 512 :]


def test_any_history_leaves_what_it_should(cached):
    """Three hundred random writes, flushes and reads of odd places and lengths, beside a model of two byte arrays."""
    chance, room = random.Random(7), 8 * BLOCK
    seen, kept = bytearray(room), bytearray(room)
    with cached.connect() as nbd:
        for step in range(300):
            offset = chance.randrange(room)
            count = chance.randint(1, min(room - offset, 3 * BLOCK))
            assert nbd.read(offset, count) == seen[offset : offset + count], f"step {step}"
            if chance.random() < 0.05:
                nbd.flush()
                kept[:] = seen
                continue
            data, fua = chance.randbytes(count), chance.random() < 0.3
            nbd.write(offset, data, fua)
            for copy in (seen, kept) if fua else (seen,):
                copy[offset : offset + count] = data
    cached.control.power_cut()
    cached.start_again()
    with cached.connect() as nbd:
        assert nbd.read(0, room) == kept != seen


def test_a_flush_on_one_connection_keeps_what_another_wrote(cached):
    """As NBD asks of a server that takes several connections."""
    with cached.connect() as nbd, cached.connect() as other:
        nbd.write(0, b"x" * BLOCK)
        other.flush()
    cached.container.kill("SIGKILL")
    cached.start_again()
    with cached.connect() as nbd:
        assert nbd.read(0, BLOCK) == b"x" * BLOCK


def test_killing_the_container_is_a_power_cut_and_stopping_it_is_not(cached):
    """SIGKILL takes what was not flushed; SIGTERM is an orderly end, which writes it back."""
    with cached.connect() as nbd:
        nbd.write(0, b"kept" * 1024)
    cached.container.stop(timeout=10)
    cached.start_again()
    with cached.connect() as nbd:
        nbd.write(0, b"lost" * 1024)
    cached.container.kill("SIGKILL")
    cached.start_again()
    with cached.connect() as nbd:
        assert nbd.read(0, BLOCK) == b"kept" * 1024


def test_a_cache_that_is_full_writes_the_oldest_back(cached):
    """With room for two blocks the first of three is on the disk, and the other two are lost."""
    cached.control.set(cache_bytes=2 * BLOCK)
    with cached.connect() as nbd:
        for number in range(3):
            nbd.write(number * BLOCK, b"x" * BLOCK)
    assert cached.control.stats().dirty_bytes == 2 * BLOCK
    cached.control.power_cut()
    cached.start_again()
    with cached.connect() as nbd:
        assert nbd.read(0, 3 * BLOCK) == b"x" * BLOCK + bytes(2 * BLOCK)


def test_without_a_cache_nothing_is_lost(cached):
    """Switching the cache off writes it back; from then on each write is on the disk."""
    with cached.connect() as nbd:
        nbd.write(0, b"a" * BLOCK)
        cached.control.set(write_cache=False)
        nbd.write(BLOCK, b"b" * BLOCK)
    cached.control.power_cut()
    cached.start_again()
    with cached.connect() as nbd:
        assert nbd.read(0, 2 * BLOCK) == b"a" * BLOCK + b"b" * BLOCK


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_failed_disk_answers_with_eio_until_it_is_healed(disk):
    """Reads, writes and flushes fail and are counted; afterwards the data are as before."""
    with disk.connect() as nbd:
        nbd.write(0, b"x" * BLOCK)
        before = disk.control.stats().errors
        disk.control.fail()
        for act in (lambda: nbd.read(0, BLOCK), lambda: nbd.write(0, b"y" * BLOCK), nbd.flush):
            with pytest.raises(OSError) as told:
                act()
            assert told.value.errno == errno.EIO
        failed = disk.control.stats()
        disk.control.heal()

        assert failed.failed and failed.errors == before + 3
        assert nbd.read(0, BLOCK) == b"x" * BLOCK


def test_corruption_inverts_one_sector_silently(disk):
    """The sector around the offset, and nothing beside it."""
    with disk.connect() as nbd:
        nbd.write(0, bytes(BLOCK))
        disk.control.corrupt(700)

        assert nbd.read(0, BLOCK) == bytes(512) + b"\xff" * 512 + bytes(BLOCK - 1024)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("size=0",), "size=0; expected a number of bytes, more than 0"),
        (("size=1G", "write_us=-1"), "write_us=-1; expected a whole number of microseconds from 0 to 10000000"),
        (("size=1G", "read_us=5ms"), "read_us=5ms; expected a whole number of microseconds"),
        (("size=1G", "write_cache=yes"), "write_cache=yes; expected on or off"),
        (("size=1G", "cache_bytes=1"), "cache_bytes=1; expected a whole number of bytes from 4096"),
        (("size=1G", "iops=400"), "unknown setting iops; expected one of read_us, write_us"),
        (("size=1000",), "/tmp/image has 1000 bytes; expected a multiple of 4096"),
        ((), "/tmp/image has 0 bytes; expected a multiple of 4096"),
        (("size=1G", "file=/disk"), "/disk cannot be opened: Is a directory"),
        (("size=1G", "file=/disk/image"), f"/disk/image has {64 * MIB} bytes; expected as many as size= says"),
    ],
)
def test_a_disk_does_not_start_with(disk, words, message):
    """What was found and what was expected, before a port is opened or an image made."""
    code, said = disk.container.exec_run([*START, *words])

    assert code == 1
    assert message in said.decode()


def test_a_mistake_among_several_changes_leaves_all_as_they_were(disk):
    """The control refuses in words, and changes nothing."""
    before = disk.control.settings()
    with pytest.raises(LabError) as told:
        disk.control.set(write_us=5_000, flush_us=-1)

    assert "flush_us=-1" in told.value.found and "from 0 to" in told.value.expected
    assert before == disk.control.settings() == Settings(**AS_MADE, cache_bytes=32 * MIB)


@pytest.mark.parametrize("words", [("spin",), (), ("corrupt", "-1"), ("corrupt", str(64 * MIB))])
def test_the_control_refuses(disk, words):
    """An unknown command, none, and an offset that the disk does not have."""
    code, said = disk.container.exec_run(["spindle", *words])

    assert code == 1
    assert "; expected" in said.decode()


SILENCE = "use IO::Socket::UNIX; $first = IO::Socket::UNIX->new('/run/spindle/control') or die; system('spindle stats')"


def test_a_client_that_says_nothing_is_hung_up_on(disk):
    """The control does not keep the next one waiting for long."""
    code, said = disk.container.exec_run(["perl", "-e", SILENCE])

    assert (0, b"reads=") == (code, said[:6])
