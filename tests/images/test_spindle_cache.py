"""The emulated disk's volatile cache: does a power cut take what was not flushed, and no more?"""

import random

import pytest
from replication_lab.model.lab.disk import Limits

from tests.images.spindles import spindles

BLOCK = 4096
CACHED = Limits(write_cache=True)


@pytest.fixture(scope="module")
def make(client):
    """Start spindles: ``make(limits, **options)``."""
    with spindles(client) as start:
        yield start


@pytest.fixture
def cached(make):
    """Return a disk with a volatile write cache, of this test's own."""
    return make(CACHED)


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
