"""Are the types that threads decode complete before any thread uses them?"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.whole

FIRST = """
import msgspec
from replication_lab.model.lab import toxic
from replication_lab.world import catalogue
from replication_lab.world.disks import spindle
from replication_lab.world.mysql import dialects
for kind in (dialects.Dialect, catalogue.Engine, toxic._File, spindle.Settings, spindle.Stats):
    assert kind in prepared, kind
"""
PREPARED = """
import msgspec
prepared, decoder = [], msgspec.json.Decoder
def noted(kind, *more, **options):
    prepared.append(kind)
    return decoder(kind, *more, **options)
msgspec.json.Decoder = noted
"""


def test_types_are_prepared_at_import():
    """Otherwise msgspec crashes (SIGSEGV) if several threads are the first to use a type at the same moment."""
    done = subprocess.run([sys.executable, "-c", PREPARED + FIRST], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
