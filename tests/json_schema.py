"""Where a value breaks a JSON schema, by the words that the project's schemas use."""

import re
from typing import Any

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def errors(value: Any, rule: dict, whole: dict, at: str = "") -> list[str]:
    """Return where a value breaks a rule, by the words of JSON schema that this schema has."""
    if "$ref" in rule:
        return errors(value, whole["$defs"][rule["$ref"].rpartition("/")[2]], whole, at)
    if "anyOf" in rule:
        found = [errors(value, each, whole, at) for each in rule["anyOf"]]
        return [] if [] in found else min(found, key=len)
    kinds = rule.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = not kinds or any(isinstance(value, TYPES[kind]) for kind in kinds)
    told = [] if fits else [f"{at}: no {' or '.join(kinds)}"]
    told += [f"{at}: not one of {rule['enum']}"] if "enum" in rule and value not in rule["enum"] else []
    if told:
        return told
    if (
        not rule.get("minimum", value) <= value <= rule.get("maximum", value)
        if isinstance(value, (int, float))
        else False
    ):
        told.append(f"{at}: out of range")
    if isinstance(value, str) and not re.search(rule.get("pattern", ""), value):
        told.append(f"{at}: not as {rule['pattern']}")
    if isinstance(value, list):
        told += [f"{at}: too few"] if len(value) < rule.get("minItems", 0) else []
        for number, each in enumerate(value):
            told += errors(each, rule.get("items", {}), whole, f"{at}[{number}]")
    if isinstance(value, dict):
        told += [f"{at}: no {name}" for name in rule.get("required", []) if name not in value]
        for name, each in value.items():
            told += _of_key(name, each, rule, whole, f"{at}.{name}")
    return told


def _of_key(name: str, value: Any, rule: dict, whole: dict, at: str) -> list[str]:
    rules = [rule["properties"][name]] if name in rule.get("properties", {}) else []
    patterns = rule.get("patternProperties", {})
    rules += [each for pattern, each in patterns.items() if re.search(pattern.replace("(?<", "(?P<"), name)]
    rules = rules or [rule.get("additionalProperties", {})]
    return (
        [f"{at}: unknown"] if rules == [False] else [said for each in rules for said in errors(value, each, whole, at)]
    )
