"""The texts that name a server: an engine of the catalogue, a vendor's version, or any image."""

import re
from dataclasses import dataclass

from replication_lab.model.errors import LabError, unknown_name

# The vendors' official repositories, by the name that stands before the colon.
VENDORS = {"mariadb": "mariadb", "mysql": "mysql", "percona": "percona/percona-server"}
FORMS = f"a name from ./lab engines, or {', '.join(f'{vendor}:TAG' for vendor in VENDORS)}"
_TOLD = re.compile(r"([a-z0-9.-]+)@(?!sha256:)(.+)")
_IMAGE = re.compile(r"[a-zA-Z0-9][\w.:/@-]*")


@dataclass(frozen=True)
class ServerName:
    """A server as it was asked for.

    `engine` is a name of the catalogue, whose Compose file and dialect the server takes; empty if an image has to tell.
    `image` is run in place of the engine's own; empty for that one.
    """

    engine: str
    image: str = ""


def parse_server(text: str) -> ServerName:
    """Return the server that a text names: ENGINE, VENDOR:TAG, IMAGE with a slash, or ENGINE@IMAGE."""
    if told := _TOLD.fullmatch(text):
        return ServerName(told[1], _valid(told[2]))
    if "/" in text:
        return ServerName("", _valid(text))
    vendor, colon, tag = text.partition(":")
    if not colon:
        return ServerName(text)
    if vendor not in VENDORS:
        raise unknown_name("vendor", vendor, VENDORS, "./lab up --help", "--image IMAGE")
    if not tag:
        raise LabError(f"{text!r} has no tag", f"{vendor}:TAG", f"--engine {vendor}")
    return ServerName("", _valid(f"{VENDORS[vendor]}:{tag}"))


def server_text(engine: str, image: str) -> str:
    """Return the text that names an image, run as this engine; if `engine` is empty, as the one that it has."""
    _valid(image)
    if ":" not in image.rpartition("/")[2] and "@" not in image:
        image += ":latest"
    # A text without a slash names an engine or a vendor.
    image = image if "/" in image else f"docker.io/library/{image}"
    return f"{engine}@{image}" if engine else image


def _valid(image: str) -> str:
    if not _IMAGE.fullmatch(image):
        raise LabError(f"{image!r} is no image", "REPOSITORY:TAG", "--image registry.example/mysql:8.4")
    return image
