"""The arguments of this host's processes, which each of its users can read."""

import threading
from contextlib import contextmanager
from pathlib import Path


def arguments():
    """Yield the command line of each process of this host, as `ps` shows it."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield (process / "cmdline").read_bytes()
        except OSError:
            continue


@contextmanager
def processes_watched():
    """Yield a set that gets every command line that runs within the block."""
    seen, over = set(), threading.Event()

    def watch():
        while not over.is_set():
            seen.update(arguments())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


def check_no_password(lab, seen, program):
    """Check that a program was seen, and that no command line has one of the lab's passwords."""
    assert [line for line in seen if program in line], f"{program} was not seen at all"
    assert [line for line in seen if any(secret.encode() in line for secret in lab.passwords.values())] == []
