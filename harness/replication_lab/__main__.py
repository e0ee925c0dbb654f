"""`python -m replication_lab`: the same as the `lab` launcher."""

from replication_lab.cli import main

main()
