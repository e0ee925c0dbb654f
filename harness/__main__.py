"""`python -m harness`: the same as the `lab` launcher."""

from harness.cli import main

main()
