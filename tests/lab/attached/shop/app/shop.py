"""A small shop as people write one: `web` serves orders, `worker` marks them as done.

GET /health asks the database, POST /orders writes a row. The pool checks nothing before use, and retries once.
"""

import os
import queue
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pymysql

SIZE, SECONDS = 4, 2
_idle = queue.LifoQueue(SIZE)


def _connect():
    return pymysql.connect(
        host=os.environ["DB_HOST"],
        user=os.environ["DB_USER"],
        password=os.environ["DB_PASSWORD"],
        database=os.environ["DB_NAME"],
        autocommit=True,
        connect_timeout=SECONDS,
        read_timeout=SECONDS,
        write_timeout=SECONDS,
    )


def ask(sql, arguments=()):
    """Run one statement and return its rows; a lost connection is replaced once."""
    for attempt in (1, 2):
        try:
            connection = _idle.get_nowait()
        except queue.Empty:
            connection = None
        try:
            connection = connection or _connect()
            with connection.cursor() as cursor:
                cursor.execute(sql, arguments)
                rows = cursor.fetchall()
        except (pymysql.err.MySQLError, OSError):
            if connection is not None:
                connection.close()
            if attempt == 2:
                raise
            continue
        try:
            _idle.put_nowait(connection)
        except queue.Full:
            connection.close()
        return rows


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._answer(lambda: ask("SELECT COUNT(*) FROM orders"))

    def do_POST(self):
        self._answer(lambda: ask("INSERT INTO orders (item) VALUES (%s)", ("book",)))

    def _answer(self, act):
        try:
            status, said = 200, str(act())
        except Exception as error:
            status, said = 503, f"{type(error).__name__}: {error}"
        body = said.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def work():
    """Mark orders as done, a few times a second."""
    while True:
        try:
            ask("UPDATE orders SET done = 1 WHERE done = 0 LIMIT 10")
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
        time.sleep(0.3)


if sys.argv[1] == "web":
    ThreadingHTTPServer(("", 8080), Shop).serve_forever()
else:
    work()
