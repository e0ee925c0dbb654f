"""Customers that fill a cart and order it: the shop's own load, from this process."""

from dataclasses import dataclass

from replication_lab import Lab, LoadOutcome, timed

TABLE = "CREATE TABLE IF NOT EXISTS lab.carts (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40))"


@dataclass(frozen=True)
class Carts:
    """`orders` orders, one after another."""

    orders: int = 100

    def prepare(self, lab: Lab) -> None:
        lab.node("source").server().execute(TABLE)

    def run(self, lab: Lab, _seed: int) -> LoadOutcome:
        source = lab.node("source").server()
        return timed(lambda: source.execute("INSERT INTO lab.carts (item) VALUES ('tea')"), self.orders)
