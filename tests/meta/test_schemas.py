"""Does each schema in docs/ describe the files that the program reads?"""

import json

import msgspec
import pytest
from replication_lab.world import catalogue

from tests import schemas
from tests.json_schema import errors

RENEW = "make texts"
FILES = {
    "toxic": catalogue.TOXICS.glob("*.json"),
    # Files of attached/ are filled in for each link and server of a project: tests/unit/test_attached_drills.py.
    "drill": [path for path in (catalogue.PACKAGE / "drills").glob("*/*.yaml") if path.parent.name != "attached"],
    "topology": (path for path in catalogue.COMPOSE.glob("*.yaml") if not path.stem.startswith("_")),
    "experiment": (catalogue.PACKAGE / "experiments").glob("*.yaml"),
}


def wrong(name, value):
    schema = json.loads(schemas.text(name))
    return errors(value, schema, schema)


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_the_documented_schema_is_the_one_of_the_type(name):
    """The message says how to write it again."""
    assert (schemas.DOCS / f"{name}.schema.json").read_bytes() == schemas.text(name), f"write it again: {RENEW}"


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_every_shipped_file_fits_its_schema(name):
    """All of each kind."""
    files = {path: msgspec.yaml.decode(path.read_bytes()) for path in FILES[name]}

    assert len(files) > 5
    assert {path: found for path, value in files.items() if (found := wrong(name, value))} == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("toxic", {"about": "x", "toxics": [{"name": "a", "type": "latncy"}]}, "not one of"),
        ("drill", {"about": "x", "clients": {}, "expectd": []}, "unknown"),
        ("topology", {"x-lab": {"about": "x"}}, "no replication"),
        ("experiment", {"publishd": {}}, "unknown"),
    ],
)
def test_a_mistake_does_not_fit(name, value, said):
    """An editor shows it."""
    assert any(said in each for each in wrong(name, value))
