"""The rate of all connections of a link together, in one direction."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.world import clock
from replication_lab.world.packets.link import RunningLink

# Parallel connections. If each were limited separately, they would carry this many times the rate.
LANES = 3
# A rate is measured for this many seconds, or with this many KB on each connection if that is shorter.
SECONDS, MOST_KB = 1.5, 8_000
# A link in use also carries the data of other connections.
ANSWER_SECONDS = 30
SHORTEST_SECONDS = 0.001


def sum_of_rates(link: RunningLink, body: ToxicBody, round_trip_ms: float = 0) -> float:
    """Return the KB/s of several connections that send all the time, plus those of other connections of the link.

    The bytes of other connections are read from Toxiproxy's counter for this rate. If the measuring connections
    received more than it counted, as without such a rate, their bytes are used. The link's round trip does not count as
    time.
    """
    size = 1000 * min(MOST_KB, round(int(body.attributes["rate"]) * SECONDS / LANES))
    down = body.stream == "downstream"
    with ExitStack() as stack, ThreadPoolExecutor(LANES) as pool:
        lanes = [link.connect(ANSWER_SECONDS) for _ in range(LANES)]
        for lane in lanes:
            stack.callback(lane.close)
        if not down:
            size = min(size, *(lane.longest_question() for lane in lanes))
        before, began = link.carried(body), clock.timer()
        list(pool.map(lambda lane: lane.long_answer(size) if down else lane.long_question(size), lanes))
        seconds = clock.timer() - began - round_trip_ms / 1000
        carried = (link.carried(body) - before) / 1000
    return max(carried, LANES * size / 1000) / max(seconds, SHORTEST_SECONDS)
