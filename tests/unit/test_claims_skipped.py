"""Are claims skipped on a busy machine, and only there?"""

import pytest

from tests.conftest import skip_if_busy

BUSY = "python3 took 0.98 CPUs"


def test_claims_are_skipped_on_a_busy_machine_with_the_reason():
    """`make test` names the program that keeps the machine busy."""
    with pytest.raises(pytest.skip.Exception, match=f"needs a quiet machine.*{BUSY}"):
        skip_if_busy(False, lambda: BUSY)


def test_claims_are_judged_on_a_quiet_machine():
    """Nothing is skipped."""
    skip_if_busy(False, str)


def test_claims_that_were_all_asked_for_are_never_skipped():
    """`make claims` does not even ask how busy the machine is."""
    skip_if_busy(True, lambda: pytest.fail("asked"))
