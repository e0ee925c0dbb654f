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


class AskedCompanion(msgspec.Struct, frozen=True):
    """An endpoint or a manager that a lab is started with: its kind by name, and each of its settings, in order."""

    name: str
    settings: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return shown(self.name, dict(self.settings))


def asked(
    word: str, name: str, known: Mapping[str, CompanionSetting], given: Mapping[str, str | int]
) -> AskedCompanion:
    """Return it with every setting that is `known` of it; LabError for an unknown one, or no whole number.

    `word` is what it is, `name` which one; `given` are the settings that differ from the defaults.
    """
    values = {key: setting.default for key, setting in known.items()}
    for key, value in given.items():
        refuse_unknown(f"setting of the {word} {name}", key, values)
        if not str(value).isdecimal() or int(value) < 1:
            raise LabError(
                f"{word}.{key} is {value}", f"a whole number from 1: {known[key].about}", f"--set {word}.{key}=1"
            )
        values[key] = int(value)
    return AskedCompanion(name, tuple(values.items()))


def shown(name: str, settings: Mapping[str, str | int]) -> str:
    """Return a name with its settings in words."""
    how = ", ".join(f"{key} {value}" for key, value in settings.items())
    return f"{name} ({how})" if how else name


def settings_apart(settings: Mapping[str, str], word: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the other settings, and those of the endpoint or the manager by their own names."""
    prefix = f"{word}."
    own = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    return {name: value for name, value in settings.items() if not name.startswith(prefix)}, own
