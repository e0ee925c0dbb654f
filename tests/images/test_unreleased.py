"""Is an index of packages that is too old refused, and the check of its age never switched off?

Images take packages of Debian's unreleased suites, whose indexes expire within days, from mirrors that lag behind.
"""

import base64
import re

import pytest
from replication_lab.world import catalogue

from tests.images.conftest import PATIENCE_S

SCRIPT = catalogue.IMAGES / "unreleased" / "use-suite"
# A mirror in a folder, whose index of sid was made so many days ago and has expired; what apt says of it.
MIRROR = r"""
set -eu
mkdir -p /mirror/dists/sid/main/binary-amd64 && cd /mirror/dists/sid && touch main/binary-amd64/Packages
{
    echo "Suite: unstable"; echo "Codename: sid"; echo "Components: main"; echo "Architectures: amd64"
    echo "Date: $(LC_ALL=C date -u -d "-$DAYS days" '+%a, %d %b %Y %H:%M:%S UTC')"
    echo "Valid-Until: $(LC_ALL=C date -u -d "-1 hour" '+%a, %d %b %Y %H:%M:%S UTC')"
    echo "SHA256:"; echo " $(sha256sum main/binary-amd64/Packages | cut -d' ' -f1) 0 main/binary-amd64/Packages"
} >Release
rm -f /etc/apt/sources.list.d/*
echo 'Acquire::AllowInsecureRepositories "true";' >/etc/apt/apt.conf.d/unsigned
echo "deb $OPTIONS file:/mirror $SUITE main" >/etc/apt/sources.list
if [ -n "$SCRIPT" ]; then echo "$SCRIPT" | base64 --decode >/use-suite && sh /use-suite sid; fi
apt-get update -qq -o APT::Architecture=amd64 && echo taken
"""


@pytest.fixture
def updated(loose_image):
    """Return whether apt takes an index of this age, by the script or by an entry with these options; what it says."""

    def run(days, options=""):
        environment = {
            "DAYS": str(days),
            "OPTIONS": options,
            "SUITE": "sid" if options else "trixie",
            "SCRIPT": "" if options else base64.b64encode(SCRIPT.read_bytes()).decode(),
        }
        container = loose_image("replication-lab/maven", "sh", "-c", MIRROR, environment=environment)
        code = container.wait(timeout=PATIENCE_S)["StatusCode"]
        return code == 0, container.logs().decode()

    return run


def test_an_expired_index_is_taken_from_a_mirror_that_lags_behind(updated):
    """By 59 days, for this one source."""
    is_taken, said = updated(59)

    assert is_taken, said


def test_an_index_of_more_than_sixty_days_is_refused(updated):
    """An old index, with its valid signature, would bring back packages whose holes are known."""
    is_taken, said = updated(61)

    assert not is_taken and "is expired" in said


def test_without_a_check_an_index_of_any_age_is_taken(updated):
    """What the entry of the script prevents."""
    is_taken, said = updated(4000, "[check-valid-until=no]")

    assert is_taken, said


def test_no_image_switches_the_check_of_an_index_off():
    """Neither for a whole build nor for one source."""
    texts = {file: file.read_text() for file in catalogue.IMAGES.rglob("*") if file.is_file()}
    found = [str(file) for file, text in texts.items() if re.search(r"check-valid-until|check-date", text, re.I)]

    assert found == []
