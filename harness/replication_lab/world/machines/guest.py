"""The virtual machine in a container: what runs a command in it, and what is said when its agent does not answer."""

from docker.errors import APIError
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError

# What runs a command in the guest of a container, and its exit status when nothing answers (images/vm/guest-run).
IN_GUEST, SILENT = ["guest"], 255


def silent(container: Container, node: str, lab: str, said: str) -> LabError:
    """Return the error for a machine that does not answer, with what its process does (images/vm/silence)."""
    return LabError(
        f"the virtual machine {node} does not answer ({said}): {_doing(container)}",
        "a machine whose agent answers",
        f"./lab logs {node} --lab {lab}",
    )


def _doing(container: Container) -> str:
    try:
        answer = container.exec_run(["silence"])
    except APIError as error:
        return str(error.explanation or error)
    said: bytes = answer.output  # type: ignore[assignment]  # no stream was asked for
    return said.decode(errors="replace").strip()
