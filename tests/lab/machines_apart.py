"""The program `lab` where each engine seems to have a machine of its own, without noise: `python -m tests.lab.…`."""

from unittest.mock import patch

from replication_lab.cli import main
from replication_lab.world.docker import reach

from tests.noise import ignoring_noise


def each_is_apart(sites):
    """Return the machine of each site: itself."""
    return {site: site for site in ("", *sites)}


if __name__ == "__main__":
    with ignoring_noise(), patch.object(reach, "first_on_its_machine", each_is_apart):
        main()
