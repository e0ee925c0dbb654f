"""Do the tests of pages say what is missing where there is no Chromium?"""

import pytest
from replication_lab.model.core.errors import LabError

from tests import chromium


def test_a_missing_browser_is_named(monkeypatch):
    """LAB_INSTALL=no: nothing is installed; the error has the packages and the command."""
    monkeypatch.setenv("LAB_INSTALL", "no")
    monkeypatch.setattr(chromium, "_found", lambda: None)

    with pytest.raises(LabError, match="missing: Chromium and its driver") as refused:
        chromium.programs()
    assert "chromium chromium-driver" in str(refused.value.next_step)
