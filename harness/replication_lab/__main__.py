"""The program, `python -m replication_lab`: what the `lab` launcher and the installed command run."""

import signal

# Until `main` handles it, Ctrl-C ends the process without a traceback: the imports take a while, and change nothing.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from replication_lab.cli import main  # noqa: E402 - not before that

if __name__ == "__main__":
    main()
