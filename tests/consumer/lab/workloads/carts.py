"""Customers that fill a cart and order it: the shop's own load, from this process."""

from dataclasses import dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class Ordered:
    """The latencies of the orders in ms."""

    latencies_ms: list[float]
    seconds: float

    @property
    def commits(self) -> int:
        return len(self.latencies_ms)

    @property
    def samples(self) -> dict[str, list[float]]:
        return {"latency_ms": self.latencies_ms}

    @property
    def figures(self) -> dict[str, float]:
        return {
            "throughput": self.commits / self.seconds,
            "latency_p50_ms": median(self.latencies_ms),
            "latency_min_ms": min(self.latencies_ms),
        }


@dataclass(frozen=True)
class Carts:
    """`orders` orders, one after another."""

    orders: int = 100

    def prepare(self, lab) -> None:
        lab.node("source").server().execute(
            "CREATE TABLE IF NOT EXISTS lab.carts (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40))"
        )

    def run(self, lab, _seed: int) -> Ordered:
        source, latencies, began = lab.node("source").server(), [], perf_counter()
        for _ in range(self.orders):
            at = perf_counter()
            source.execute("INSERT INTO lab.carts (item) VALUES ('tea')")
            latencies.append((perf_counter() - at) * 1000)
        return Ordered(latencies, perf_counter() - began)
