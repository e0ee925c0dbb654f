"""Orders: placed on the source, counted on a replica."""

from urllib.parse import unquote, urlsplit

import pymysql

TABLE = "CREATE TABLE IF NOT EXISTS orders (id INT AUTO_INCREMENT PRIMARY KEY, item VARCHAR(40) NOT NULL)"


def connect(dsn: str, seconds: float = 5) -> pymysql.Connection:
    """Return a connection by a DSN: mysql://USER:PASSWORD@HOST:PORT/DATABASE."""
    parts = urlsplit(dsn)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/"),
        autocommit=True,
        connect_timeout=int(seconds),
        read_timeout=seconds,
    )


class Orders:
    """The orders, by the DSN of the server that takes writes and the DSN of one that is read."""

    def __init__(self, writes: str, reads: str):
        self._writes, self._reads = writes, reads
        with connect(self._writes) as connection, connection.cursor() as cursor:
            cursor.execute(TABLE)

    def place(self, item: str) -> None:
        with connect(self._writes) as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (item) VALUES (%s)", [item])

    def count(self) -> int:
        """Count the orders on the replica; if it cannot be reached, on the source."""
        try:
            return self._count(self._reads)
        except pymysql.err.OperationalError:
            return self._count(self._writes)

    def _count(self, dsn: str) -> int:
        with connect(dsn, seconds=2) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM orders")
            (count,) = cursor.fetchone()
            return count
