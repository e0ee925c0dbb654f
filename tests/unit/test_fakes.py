"""Does mypy compare all that a fake world has of the real one?"""

import pytest
from replication_lab.world import catalogue

from tests.fakes.lab import FakeLab
from tests.fakes.link import FakeLink
from tests.fakes.protocols import ALIKE
from tests.fakes.world import FakeWorld

# What only leads back to the lab.
BACK = {"lab"}


def members(of) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")} | set(getattr(of, "__dataclass_fields__", {}))


@pytest.mark.parametrize(("protocol", "fake", "real"), ALIKE, ids=lambda each: each.__name__)
def test_what_a_fake_has_of_the_real_thing_is_in_its_protocol(protocol, fake, real):
    """Whatever is in both; what only the fake has is for tests."""
    world = FakeWorld()
    made = {
        FakeLab: lambda: FakeLab(world, catalogue.topology("semisync"), "mariadb"),
        FakeLink: lambda: FakeLink("a-b"),
    }
    found = members(made[fake]()) if fake in made else members(fake)
    shared = found & members(real) - (BACK if fake.__name__ == "FakeNode" else set())

    assert len(shared) > 5 and shared <= members(protocol)
