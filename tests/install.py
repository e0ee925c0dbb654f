"""Install what tests, checks and the book need into .venv, once; `make` runs this."""

import shutil
import sys

import environment
from replication_lab.model.core.errors import LabError
from replication_lab.world import folders, lock

LIST, INSTALLED = folders.CHECKOUT / "tests" / "requirements.txt", folders.CHECKOUT / ".venv" / "developing.txt"


def main() -> None:
    """Install the list; of two commands at once the second one waits, and finds it installed."""
    with lock.held("libraries"):
        if not INSTALLED.exists() or INSTALLED.read_bytes() != LIST.read_bytes():
            # What is used is compiled then: mypy and mkdocs are large, and `make test` needs neither.
            environment.install(LIST)
        shutil.copy(LIST, INSTALLED)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"error: {error}")
