"""An image that only one test has, so that none that other tests use is replaced."""

import pytest
from docker.errors import ImageNotFound
from replication_lab.world import catalogue
from replication_lab.world.docker import images

BAKE = """
services:
  {name}:
    image: replication-lab/{name}
    build: {{context: images/{name}}}
"""


def change(name: str) -> None:
    (catalogue.IMAGES / name / "content").write_text("second")


def forget(client, name: str) -> None:
    """Remove an image from this machine, under every name."""
    for tag in [tag for image in client.images.list() for tag in image.tags if name in tag]:
        client.images.remove(tag, force=True)
    with pytest.raises(ImageNotFound):
        client.images.get(images.PREFIX + name)
