"""The program `lab` on machines that are never noisy: `python -m tests.lab.noise_ignored drill …`."""

from replication_lab.cli import main

from tests.noise import ignoring_noise

if __name__ == "__main__":
    with ignoring_noise():
        main()
