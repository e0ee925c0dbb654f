"""The network namespace of a service, changed by scripts: from a container beside it, or in the guest of a machine.

The container beside it has the one capability NET_ADMIN. Nothing on the host changes.
"""

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any

from docker.errors import NotFound
from docker.models.containers import Container

from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import engine as docker_engine
from replication_lab.world.docker import images, labels, site_images
from replication_lab.world.docker.client import refusal_told
from replication_lab.world.docker.containers import WAIT, engine_of
from replication_lab.world.docker.service import Service
from replication_lab.world.machines.guest import IN_GUEST, SILENT

IMAGE = "sidecar"
STARTED = "replication-lab.network-since"
# In a machine's container: its guest has had scripts, so it is worth asking, which takes a tenth of a second.
USED = "/run/lab-packets"
_POWERS: dict[str, Any] = {"cap_drop": ["ALL"], "cap_add": ["NET_ADMIN"], "security_opt": ["no-new-privileges:true"]}
_making = threading.Lock()


class Refused(Exception):
    """A script ended with an error; the text is what it said."""


class Silent(Refused):
    """Nothing runs scripts there now."""


class Beside:
    """The namespace of a container, changed by another one that shares it."""

    def __init__(self, owner: Service):
        self._owner = owner

    @property
    def service(self) -> str:
        return f"{self._owner.name}-packets"

    def run(self, script: str) -> str:
        """Return the output of a script; Refused if it fails."""
        return _run(self._helper() or self._made(), [], script)

    def run_if_used(self, script: str) -> str:
        """Return the output of a script; an empty string, without running it, if none ran here before."""
        helper = self._helper()
        return _run(helper, [], script) if helper else ""

    def _helper(self) -> Container | None:
        """Return the container that is in the namespace; a service that was restarted has another namespace."""
        with _usable(self.service), suppress(NotFound):
            found = engine_of(self._owner.container).containers.get(f"{self._owner.project}-{self.service}")
            if found.labels.get(STARTED) == self._since():
                if found.status != "running":
                    found.start()
                return found
        return None

    def _network(self) -> Container:
        network = self._owner.network()
        network.reload()
        return network

    def _since(self) -> str:
        network = self._network()
        return f"{network.id}@{network.attrs['State']['StartedAt']}"

    def _made(self) -> Container:
        images.ensure([IMAGE])
        site_images.bring(self._owner.site, [images.PREFIX + IMAGE])
        with _making:
            # Links are changed several at once.
            return self._helper() or self._make()

    def _make(self) -> Container:
        network, since = self._network(), self._since()
        client = engine_of(network)
        name = f"{self._owner.project}-{self.service}"
        with _usable(self.service):
            for old in client.containers.list(all=True, filters={"name": f"^/{name}$"}, ignore_removed=True):
                old.remove(force=True)
            made = client.containers.create(
                images.PREFIX + IMAGE,
                entrypoint=["bash", "-c", WAIT],
                command=[],
                name=name,
                labels={**labels.of_beside(self._owner.project, network, self.service), STARTED: since},
                network_mode=f"container:{network.id}",
                healthcheck={"test": ["NONE"]},
                **_POWERS,
            )
            made.start()
            made.reload()
        self._owner.containers.refresh()
        return made


class Guest:
    """The namespace of a virtual machine, by the agent in it."""

    def __init__(self, machine: Service):
        self._machine = machine

    def run(self, script: str) -> str:
        """Return the output of a script; Refused if it fails."""
        self._machine.put(USED, b"yes")
        return _run(self._machine.container, IN_GUEST, script)

    def run_if_used(self, script: str) -> str:
        """Do the same as that of a container; an empty string also if the machine is off: nothing is left then."""
        if self._machine.state()[0] != "running" or not self._machine.text_of(USED):
            return ""
        try:
            return _run(self._machine.container, IN_GUEST, script)
        except Silent:
            return ""


# Where scripts run that change what happens to packets.
Namespace = Beside | Guest


def _usable(name: str) -> AbstractContextManager[None]:
    return refusal_told(f"the container {name}, which changes packets, does not work", "a running container")


def _run(container: Container, prefix: list[str], script: str) -> str:
    with _usable(str(container.name)):
        answer = container.exec_run([*prefix, "bash", "-c", script], demux=True)
    pair: Iterable[bytes] = answer.output  # type: ignore[assignment]  # with demux a pair, which the stubs lack
    out, err = (part.decode(errors="replace") for part in pair)
    if answer.exit_code:
        raise (Silent if prefix and answer.exit_code == SILENT else Refused)(err or out)
    return out


def impossible(what: str, said: str) -> LabError:
    """Return the error for a script that the kernel refused; it names the missing feature if that is known.

    `what` is what cannot be done to packets, such as "lost".
    """
    lines = said.strip().splitlines()
    lacks = [line.split(" ", 2)[1:] for line in lines if line.startswith("lacks ")]
    others = [line for line in lines if not line.startswith("lacks ")]
    last = others[-1] if others else "no message"
    if lacks:
        release, feature = lacks[0]
        why = f"the kernel {release} lacks {feature} ({last})"
    else:
        why = f"its rule was refused: {last}"
    return LabError(f"packets cannot be {what}: {why}", f"a kernel with this feature, or no packets that are {what}")


def read(namespace: Namespace, script: str, what: str) -> str:
    """Return the output of a script if one ran there before; LabError, with `what`, if the kernel refuses it."""
    try:
        return namespace.run_if_used(script)
    except Refused as error:
        raise impossible(what, str(error)) from error


def refused_here(script: str) -> str:
    """Run a script in a namespace of its own; return what it said if it failed, else an empty string.

    Only a trial shows what the kernel of this host can do: a setting does not show whether a module can be loaded.
    """
    docker_engine.ensure()
    images.ensure([IMAGE])
    alone: dict[str, Any] = {"network_disabled": False, "network_mode": "none", "healthcheck": {"test": ["NONE"]}}
    status, said = images.said_by(images.PREFIX + IMAGE, script, "bash", stdout=False, **alone, **_POWERS)
    return (said or "no message") if status else ""
