"""An endpoint: the one address that clients use in place of the nodes' own, such as that of a proxy."""

from collections.abc import Mapping

import msgspec

from replication_lab.model.core.errors import LabError, refuse_unknown

# What a drill, a ledger and a setting call it, beside the names of nodes.
ENDPOINT = "endpoint"
# The side of it that clients only read from.
ENDPOINT_READS = "endpoint-reads"
# The value of a question's setting for clients that connect to the nodes themselves.
NONE = "none"
# A setting of the endpoint is ENDPOINT.NAME.
PREFIX = f"{ENDPOINT}."


class EndpointSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole number that an endpoint is started with."""

    default: int
    about: str


class EndpointKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file compose/endpoints/NAME.yaml; `image` is also the service's name, the ports are those in its container.

    `states` is the port at which it tells what it has found out about each node, as CSV of HAProxy.
    """

    about: str
    image: str
    writes: int
    reads: int
    states: int
    settings: dict[str, EndpointSetting]


class AskedEndpoint(msgspec.Struct, frozen=True):
    """An endpoint that a lab is started with: its kind by name, and each of its settings, in order."""

    name: str
    settings: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        how = ", ".join(f"{name} {value}" for name, value in self.settings)
        return f"{self.name} ({how})" if how else self.name


def asked_endpoint(name: str, kind: EndpointKind, given: Mapping[str, str | int]) -> AskedEndpoint:
    """Return the endpoint with these settings, {NAME: VALUE}; LabError for an unknown one, or no whole number."""
    values = {key: setting.default for key, setting in kind.settings.items()}
    for key, value in given.items():
        refuse_unknown(f"setting of the endpoint {name}", key, values)
        if not str(value).isdecimal() or int(value) < 1:
            raise LabError(
                f"{PREFIX}{key} is {value}",
                f"a whole number from 1: {kind.settings[key].about}",
                f"--set {PREFIX}{key}=1",
            )
        values[key] = int(value)
    return AskedEndpoint(name, tuple(values.items()))


def settings_apart(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the settings of servers, and those of the endpoint by their own names."""
    own = {name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(PREFIX)}
    return {name: value for name, value in settings.items() if not name.startswith(PREFIX)}, own
