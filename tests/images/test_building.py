"""What building says when something is missing or wrong."""

import subprocess
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "images"
# Stands in for Maven: "fetches" a file that is not what the image was written for.
WRONG_FILE = """
printf '#!/bin/sh\n' >/usr/local/bin/mvn && chmod +x /usr/local/bin/mvn
mkdir -p /root/.m2/repository/org/example/server/1 && cd /root/.m2/repository/org/example/server/1
echo wrong >server-1-linux.zip
unpack-artifact org.example:server:1:zip:linux 1111 2222 /dev/null /opt/server; code=$?
ls; exit $code
"""


def test_base_names_the_missing_tool(tmp_path):
    """Without mmdebstrap nothing is written, and the message says what to install."""
    done = subprocess.run(
        ["/bin/sh", IMAGES / "base" / "make"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )

    assert (1, "") == (done.returncode, done.stdout)
    assert "mmdebstrap was not found. Install it: sudo apt-get install" in done.stderr


def test_archive_with_a_wrong_checksum_is_refused_and_removed(loose_image):
    """A fetched file that is not the expected one stops the build, with both sums, and is not kept for the next try."""
    container = loose_image("replication-lab/maven", "bash", "-c", WRONG_FILE)

    assert 1 == container.wait(timeout=10)["StatusCode"]
    log = container.logs().decode()
    assert "is not the file this image was written for: sha1 found" in log
    assert "expected 1111" in log
    assert "server-1-linux.zip" not in log
