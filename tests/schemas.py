"""The JSON schemas of the files that a reader may write: `make texts` writes them into docs/.

They are made from the types that read the files. A question's and a summary's are made by the program itself.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from replication_lab import faults
from replication_lab.model.core.quantity import DURATIONS
from replication_lab.model.drill.drill import Drill
from replication_lab.model.experiment.published import Data
from replication_lab.model.lab import topology, toxic
from replication_lab.model.lab.toxic import ATTRIBUTES, PACKET_KINDS
from replication_lab.runner import drill_set
from replication_lab.world import catalogue

DOCS = catalogue.ROOT / "docs"
Schema = dict[str, Any]


def of_toxics() -> Schema:
    """Return the schema of toxics/NAME.json, with the types of Toxiproxy's toxics and of the kernel's."""
    found = msgspec.json.schema(toxic._File)
    body = found["$defs"]["ToxicBody"]["properties"]
    body["type"] |= {"enum": [*ATTRIBUTES, *PACKET_KINDS]}
    body["stream"] |= {"enum": ["upstream", "downstream"]}
    return found


def of_drills() -> Schema:
    """Return the schema of a drill: the record's type without the names, with promises and faults' settings."""
    found = msgspec.json.schema(Drill)
    drill, kinds = found["$defs"]["Drill"], faults.kinds()
    # The name is the file's; a file of the project is in its topology's folder.
    drill["properties"].pop("name")
    drill["required"] = [key for key in drill["required"] if key not in ("name", "topology", "expected")]
    # One of `expected` and `promises` is required.
    drill["properties"]["promises"] = {"type": "array", "items": {"enum": sorted(drill_set.promises())}}
    for each in ("Drill", "Step", "FaultSpec"):
        # A number, or a text with a unit.
        for key in found["$defs"][each]["properties"].keys() & DURATIONS.keys():
            found["$defs"][each]["properties"][key]["type"] = ["number", "string"]
    for each in ("Step", "FaultSpec"):
        fault = found["$defs"][each]["properties"]
        fault.pop("settings")
        fault["fault"] |= {"enum": sorted(kinds)}
        fault |= {setting.name: {} for kind in kinds.values() for setting in kind.settings}
    return found


def of_topologies() -> Schema:
    """Return the schema of `x-lab` in a Compose file; Compose has a schema for the rest."""
    own = msgspec.json.schema(topology._Lab)
    return {"type": "object", "properties": {"x-lab": {"$ref": own["$ref"]}}, "required": ["x-lab"], **_defs(own)}


def _defs(schema: Schema) -> Schema:
    return {"$defs": schema["$defs"]}


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "toxic": of_toxics,
    "drill": of_drills,
    "topology": of_topologies,
    "experiment": lambda: msgspec.json.schema(Data),
}


def text(name: str) -> bytes:
    return msgspec.json.format(msgspec.json.encode(SCHEMAS[name]()), indent=2) + b"\n"


if __name__ == "__main__":
    for each in SCHEMAS:
        (DOCS / f"{each}.schema.json").write_bytes(text(each))
