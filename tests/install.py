"""Install what tests, checks and the book need into .venv, once; `make` runs this."""

import shutil
import subprocess
import sys

from replication_lab.world import lock, places

LIST, INSTALLED = places.CHECKOUT / "tests" / "requirements.txt", places.CHECKOUT / ".venv" / "developing.txt"


def main() -> None:
    """Install the list; of two commands at once the second one waits, and finds it installed."""
    with lock.held("libraries"):
        if not INSTALLED.exists() or INSTALLED.read_bytes() != LIST.read_bytes():
            # What is used is compiled then: mypy and mkdocs are large, and `make test` needs neither.
            pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile"]
            subprocess.run([*pip, "--require-hashes", "-r", LIST], check=True)
        shutil.copy(LIST, INSTALLED)


if __name__ == "__main__":
    main()
