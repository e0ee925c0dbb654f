"""What a lab is started with besides its nodes, an endpoint or a manager: its settings, written as WORD.NAME."""

from collections.abc import Mapping

import msgspec

from replication_lab.model.core.errors import LabError, refuse_unknown


class CompanionSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole number that an endpoint or a manager is started with."""

    default: int
    about: str


def is_own(image: str) -> bool:
    """Return whether an image is one of images/, which are built here, and not a vendor's."""
    return bool(image) and "/" not in image


def settings_of(
    word: str, name: str, known: Mapping[str, CompanionSetting], given: Mapping[str, str | int]
) -> tuple[tuple[str, int], ...]:
    """Return every setting with its value, in order; LabError for an unknown one, or no whole number.

    `word` is what it is, `name` which one; `given` are those that differ from the defaults.
    """
    values = {key: setting.default for key, setting in known.items()}
    for key, value in given.items():
        refuse_unknown(f"setting of the {word} {name}", key, values)
        if not str(value).isdecimal() or int(value) < 1:
            raise LabError(
                f"{word}.{key} is {value}", f"a whole number from 1: {known[key].about}", f"--set {word}.{key}=1"
            )
        values[key] = int(value)
    return tuple(values.items())


def shown(name: str, settings: Mapping[str, str | int]) -> str:
    """Return a name with its settings in words."""
    how = ", ".join(f"{key} {value}" for key, value in settings.items())
    return f"{name} ({how})" if how else name


def settings_apart(settings: Mapping[str, str], word: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the other settings, and those of the endpoint or the manager by their own names."""
    prefix = f"{word}."
    own = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    return {name: value for name, value in settings.items() if not name.startswith(prefix)}, own
