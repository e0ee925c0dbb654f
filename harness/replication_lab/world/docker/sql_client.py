"""Files of SQL, run by the server's own client in the container of a node."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, NamedTuple

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock, signals
from replication_lab.world.docker import engine

if TYPE_CHECKING:  # a node has a client
    from replication_lab.world.docker.service import Node

ERROR = re.compile(r"ERROR (?:(?P<code>\d+) \(\w+\) )?(?:at line (?P<line>\d+))?.*?: (?P<said>.*)", re.DOTALL)
OPTIONS = ("--batch", "--skip-column-names", "--unbuffered", "--skip-reconnect", "--comments")
# A dump has UTF-8, and long statements.
READS = ("--default-character-set=utf8mb4", "--max-allowed-packet=1G")
FIRST = "SELECT CONNECTION_ID();\n"
END_SECONDS = 5
CHUNK = 1 << 16


class Failure(NamedTuple):
    """How a client ended: the line of the statement, from 1, the number of its error, each None if unknown."""

    line: int | None
    code: int | None
    said: str


def run(
    node: "Node", command: Sequence[str], password: str, sql: str, place_of: Callable[[int | None], str]
) -> Failure | None:
    """Run statements by the client that `command` starts in a node's container; return how it failed, if it did.

    `place_of` describes the statement of a line. Raise Stopped if this is interrupted: that ends the running statement.
    """
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile() as errors:
        file.write(f"{FIRST}{sql}\n".encode())
        file.seek(0)
        with signals.signals_deferred():
            # In a session of its own, so that Ctrl-C does not end it before the statement.
            process = subprocess.Popen(
                [
                    *engine.command_for(node.site),
                    *("exec", "--interactive", "--env", "MYSQL_PWD", str(node.container.name)),
                    *(*command, *OPTIONS, *READS),
                ],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "MYSQL_PWD": password},
                start_new_session=True,
            )
            assert process.stdout
            thread = process.stdout.readline().strip()
        try:
            while process.stdout.read(CHUNK):
                pass
            failed = _failure(process.wait(), errors)
            # Without a session nothing was sent.
            return failed if thread or not failed else Failure(None, 0, failed.said)
        except KeyboardInterrupt as stop:
            with signals.signals_held():
                said = _end(node, int(thread or 0), process, errors, place_of)
            raise signals.Stopped(str(stop), said) from stop
        finally:
            process.stdout.close()
            process.kill()
            process.wait()


def _failure(status: int, errors: IO[bytes]) -> Failure | None:
    if not status:
        return None
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()
    found = ERROR.search(said)
    if not found:
        return Failure(None, None, said or f"the client ended with status {status}")
    line, code = found["line"], found["code"]
    # Without a number it is an error of the client itself, which sent nothing.
    return Failure(int(line) - 1 if line else None, int(code) if code else 0, found["said"].strip())


def _end(
    node: "Node",
    thread: int,
    process: subprocess.Popen[bytes],
    errors: IO[bytes],
    place_of: Callable[[int | None], str],
) -> str:
    """End the client's session on the server; return what became of its statement, in words."""
    server = node.server()
    if not thread or process.poll() is not None:
        return "no statement was running"
    try:
        with suppress(LabError):
            # An error says that the session has ended.
            server.execute(f"KILL {thread}")
        clock.wait_until(lambda: process.poll() is not None, "the client to end", END_SECONDS)
    except LabError:
        end = f'./lab sql {server.name} -e "KILL {thread}"'
        return f"a statement may still run on {server.name}, and its outcome is unknown; to end it: {end}"
    failed = _failure(process.wait(), errors)
    return f"{place_of(failed.line if failed else None)} was ended on {server.name}, and its outcome is unknown"
