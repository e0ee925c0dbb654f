"""Is a rate that of the link, and does no rate of each connection pass for it?"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from replication_lab.faults.link_proof import realised
from replication_lab.faults.toxic_calibration import calibrated, put
from replication_lab.model.lab.toxic import LINK_RATE, ToxicBody, parse_toxic
from replication_lab.probes import round_trip
from replication_lab.world import catalogue

from tests.fakes.link import FakeLink, FakeRoundTrip


@pytest.fixture
def link() -> FakeLink:
    return FakeLink("source-replica")


@pytest.fixture
def of_each_connection():
    """Return a rate of 12 500 KB/s that each connection has by itself, under the names of the link's rate."""
    text = (catalogue.TOXICS / "slow-100mbit.json").read_text().replace("link_bandwidth", "bandwidth")
    return parse_toxic("each", text)


def test_a_rate_of_each_connection_is_calibrated_as_well(link, of_each_connection):
    """A link that carries a tenth less than its toxic says is widened until it carries what was asked."""
    result = calibrated(link, of_each_connection, FakeRoundTrip(link))

    assert result.rate_kbps > of_each_connection.rate_kbps
    assert abs(link.kilobytes_per_second() / of_each_connection.rate_kbps - 1) < 0.05
    assert realised(of_each_connection, FakeRoundTrip(link))[1]


def test_the_rate_of_a_link_is_not_calibrated(link):
    """Other connections may use the link, and correcting for their share would give the link more than requested."""
    link.sum_of_rates = link.kilobytes_per_second = lambda: 5_000.0
    asked = catalogue.toxic("slow-100mbit")

    assert calibrated(link, asked, FakeRoundTrip(link)) is asked


def test_a_rate_of_each_connection_does_not_pass_for_that_of_the_link(link, of_each_connection):
    """One connection has the requested rate; several together carry more, and the ports do not share a rate."""
    calibrated(link, of_each_connection, FakeRoundTrip(link))
    said, proved = realised(catalogue.toxic("slow-100mbit"), FakeRoundTrip(link))

    assert not proved
    assert float(said.split(" KB/s down")[0].split()[-1]) > 2 * 12_500
    assert "the ports of the link do not share the rate" in said


@pytest.mark.parametrize(
    ("rates", "proved"), [([6_000, 12_300], True), ([6_000, 6_000, 6_000, 12_300], False), ([25_000, 12_300], False)]
)
def test_a_busy_moment_is_measured_again_and_too_much_is_not(link, rates, proved):
    """A machine without CPU carries less; nothing but a missing limit carries more."""
    asked, measured = catalogue.toxic("slow-100mbit"), iter(rates)
    asked = replace(asked, bodies=asked.bodies[:1])
    put(link, asked)
    link.sum_of_rates = lambda: next(measured)

    assert realised(asked, FakeRoundTrip(link))[1] is proved


@pytest.mark.parametrize(("trip", "proved"), [(0.5, True), (24.0, True), (28.0, False)])
def test_a_ping_may_wait_for_a_packet_of_others_in_each_direction(link, trip, proved):
    """At 125 KB/s a packet of 1500 bytes takes 12 ms; more is a delay that nobody requested."""
    asked = catalogue.toxic("slow-1mbit")
    put(link, asked)

    assert realised(asked, FakeRoundTrip(link), bare_ms=0.5, measured=[trip])[1] is proved


def test_a_port_without_the_links_rate_is_noticed(link):
    """What is measured crosses one port; the others are read back."""
    asked = catalogue.toxic("slow-100mbit")
    calibrated(link, asked, FakeRoundTrip(link))
    link.shares = lambda body: body.stream == "upstream"

    assert realised(asked, FakeRoundTrip(link))[1] is False


def test_two_kinds_of_rates_together_are_not_measured(of_each_connection):
    """The lab could prove only one of them."""
    both = replace(of_each_connection, bodies=of_each_connection.bodies + catalogue.toxic("slow-1mbit").bodies)

    assert (of_each_connection.is_measured, both.is_measured) == (True, False)


@pytest.mark.parametrize(("others", "counted"), [(0, True), (900_000, True), (0, False)])
def test_the_sum_of_a_link_is_that_of_all_connections(monkeypatch, others, counted):
    """The bytes of three connections, plus those of others by the proxy's counter; without it, only their own."""
    link: Any = FakeLink("a-b")
    clock_ = SimpleNamespace(now=10.0)
    body = ToxicBody("narrow", LINK_RATE, "downstream", {"rate": 1000})
    sent, closed = [], []

    class Lane:
        def long_answer(self, size):
            sent.append(size)
            clock_.now += 0.5

        def close(self):
            closed.append(self)

    link.connect = lambda _seconds: Lane()
    link.carried = lambda _body: sum(sent) + (others if sent else 0) if counted else 0
    monkeypatch.setattr(round_trip.clock, "timer", lambda: clock_.now)

    assert round_trip.sum_of_rates(link, body) == pytest.approx((1_500 + others / 1000) / 1.5, rel=0.01)
    assert (len(sent), len(closed)) == (round_trip.LANES, round_trip.LANES)
