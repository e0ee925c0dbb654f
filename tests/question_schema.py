"""The JSON schema of a question's file, for completion and checks in editors: docs/question.schema.json."""

from typing import Any

import msgspec
from replication_lab.model.core.quantity import DURATIONS
from replication_lab.model.lab.storage import ALONE, LEVELS, MOST_DISKS
from replication_lab.model.question.load import INSERTS, OTHER, SYSBENCH
from replication_lab.model.question.question import Question
from replication_lab.model.question.setting import (
    CHOICES,
    CLIENTS,
    CNF,
    DISK,
    ENGINE,
    NONE,
    OWN,
    RATE,
    RTT,
    STORAGE,
    VALUE,
    VARIABLE,
)
from replication_lab.model.question.validation import LIMITS

# The description of each field that an editor shows.
DESCRIBED = {
    "topologies": "Names of topologies, as `lab list topologies` shows them. Each is measured.",
    "vary": "Settings to vary, each with its values as texts. All combinations are measured.",
    "cases": "The combinations of values that are measured, in place of all, of the settings in them.",
    "settings": "Settings that are the same in every case, each with its value as a text.",
    "baseline": "Values that the others are compared with. Default: the first value of the first setting that varies.",
    "claims": "Claims to judge, such as: throughput[sync_binlog=1] / throughput[sync_binlog=0] >= 0.9",
    "workload": f"Load: {INSERTS}, a script of sysbench by name, or a file with its text ({OTHER}).",
    "script_options": "Options of the script in workload, by name.",
    "load_command": "Load in place of workload: a command for sh that prints a line for each transaction.",
    "load_image": "Image that load_command runs in; if empty, the image of the lab's own load.",
    "schema": "SQL that makes tables before the load.",
    "init": "SQL to run before the load, after the tables are made.",
    "cnf": "The files that the setting cnf names.",
    "engine": "Engine of the servers. Default: that of each topology.",
    "seconds": "Load per case and round: seconds, or a duration such as 2min.",
    "margin": "Measure until each ratio to the baseline is known within ± this share, at 95 % confidence; 0.1 is 10 %.",
    "rounds": "Maximum number of rounds.",
    "max_minutes": "Start no round after this number of minutes, or this duration, such as 2h; 0 stands for no limit.",
    "drill": "Drill to run for each case after the load, such as lose-source.",
    "drill_runs": "Number of drills for each case; 0 stands for the default, 3.",
    "ledger": "Whether the clients of a drill run the workload's transactions; `lost` then counts transactions.",
    "check": "Whether the load are the workload's transactions, checked for anomalies in what they read and wrote.",
}
SETTINGS: dict[str, dict[str, Any]] = {
    CLIENTS: {"type": "string", "pattern": "^[1-9][0-9]*$", "description": "Number of concurrent clients."},
    RATE: {
        "type": "string",
        "description": "Transactions to begin each second or minute, evenly spaced: 200/s or 12000/min.",
    },
    RTT: {"type": "string", "description": "Round trip of every link: 40ms, 40ms±5ms, or the name of a toxic."},
    **{name: {"type": "string", "enum": list(values)} for name, values in CHOICES.items()},
}
OF_SEVERAL = [level for level in LEVELS if level != ALONE]
# Settings of all replicas, or of one node as NODE.storage.
OF_NODES: dict[str, dict[str, Any]] = {
    STORAGE: {
        "type": "string",
        "pattern": f"^(?:{NONE}|{ALONE}|(?:{'|'.join(OF_SEVERAL)})(?::[2-{MOST_DISKS}])?)$",
        "description": "Emulated disks for a node's data: a level, and optionally a number of disks: raid0:3.",
    },
    DISK: {"type": "string", "description": "Model of these disks, as `lab list disks` shows them."},
}
ENGINES = {"type": "string", "description": "Engine of the servers."}


def schema() -> bytes:
    """Return the JSON schema of the file that `lab ask --save` writes and `lab run` reads."""
    found = msgspec.json.schema(Question)
    fields = found["$defs"]["Question"]["properties"]
    for name, about in DESCRIBED.items():
        fields[name]["description"] = about
    for name, (least, most, _) in LIMITS.items():
        fields[name] |= {"minimum": least, "maximum": most}
    for name in fields.keys() & DURATIONS.keys():
        # A number, or a text with a unit.
        fields[name]["type"] = [fields[name]["type"], "string"]
    fields["topologies"] |= {"minItems": 1, "uniqueItems": True}
    # An alternative to a file: a name that an editor completes.
    fields["workload"]["anyOf"][0]["enum"] = [INSERTS, *SYSBENCH]
    _describe_settings(fields["settings"], SETTINGS, OF_NODES, _of_servers())
    several = {name: _list_of(one) for name, one in {**SETTINGS, ENGINE: ENGINES}.items()}
    of_nodes = {name: _list_of(one) for name, one in OF_NODES.items()}
    _describe_settings(fields["vary"], several, of_nodes, _list_of(_of_servers()))
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def _of_servers() -> dict[str, Any]:
    return {
        "type": "string",
        "pattern": f"^(?:{VALUE.pattern})$",
        "description": "A variable of every server, or NODE.VARIABLE.",
    }


def _list_of(one: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": one, "minItems": 1, "uniqueItems": True}


def _describe_settings(
    field: dict[str, Any], known: dict[str, Any], of_nodes: dict[str, Any], variable: dict[str, Any]
) -> None:
    """Describe the settings of the lab, and the form of a server's variable; no other key is allowed."""
    files = {"description": f"Files of options for the servers, by their names in the field {CNF}."}
    # JSON schema has the regular expressions of JavaScript, in which a group's name is written without P.
    of_variable = VARIABLE.pattern.replace("(?P<", "(?<")
    own = "|".join(OWN)
    field["properties"] = known
    of_nodes = {CNF: field["additionalProperties"] | files, **of_nodes}
    names = "|".join(of_nodes)
    field["patternProperties"] = {f"^(?:.*\\.)?{name}$": one for name, one in of_nodes.items()} | {
        f"^(?!(?:{own})$|(?:.*\\.)?(?:{names})$)(?:{of_variable})$": variable
    }
    field["additionalProperties"] = False


if __name__ == "__main__":
    print(end=schema().decode())
