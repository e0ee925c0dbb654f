"""Check the my.cnf files of a lab's nodes by their own servers' programs, before anything of the lab starts."""

from collections.abc import Mapping

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.lab.topology import Topology
from replication_lab.world.docker import option_check, servers


def check(topology: Topology, engine: str, files: Mapping[str, GivenFile | None]) -> None:
    """Raise LabError with all options of these files, by node, that a server does not take, ignores or changes."""
    texts = servers.of_nodes(topology, engine)
    asked: dict[tuple[str, GivenFile], list[str]] = {}
    for node, file in files.items():
        if file:
            asked.setdefault((servers.image_of(texts[node]), file), []).append(node)
    said = [
        f"{option.place}: {option.name} = {option.value}: {why} ({', '.join(nodes)})"
        for (image, file), nodes in asked.items()
        for option, why in option_check.complaints(image, file).items()
    ]
    if said:
        raise LabError(
            "\n  ".join(["the servers do not take these options:", *said]) if len(said) > 1 else said[0],
            "options that the servers know, with values that they keep unchanged",
            "correct or remove them in a copy of the file",
        )
