"""A command at a terminal of its own."""

import os
import pty
import subprocess

from replication_lab.world import installing


def typed_at_a_terminal(command, keys, **environment):
    """Return what a command prints with a pseudo-terminal, at which these keys are typed, and its standard output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**{k: v for k, v in os.environ.items() if k != installing.VARIABLE}, **environment},
    )
    os.close(theirs)
    seen = b""
    try:
        while b"type no: " not in seen:
            seen += os.read(ours, 4096)
        os.write(ours, keys)
    except OSError:
        # The terminal closes when the command ends: nothing was asked.
        pass
    out, _ = process.communicate()
    os.close(ours)
    return seen.decode().replace("\r", ""), out
