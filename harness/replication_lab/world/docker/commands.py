"""The commands that run in a container, and who started them."""

from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.world import requests_made
from replication_lab.world.docker.containers import engine_of


def of_others(container: Container) -> set[int]:
    """Return the host's process numbers of the commands in a container that another process has started."""
    api, own = engine_of(container).api, requests_made.commands()
    try:
        running = api.inspect_container(str(container.id))["ExecIDs"] or []
        return {api.exec_inspect(each)["Pid"] for each in running if each not in own}
    except APIError:
        # The container or a command has ended meanwhile.
        return set()
