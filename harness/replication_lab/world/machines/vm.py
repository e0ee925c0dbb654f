"""Virtual machines (images/vm): what starts a guest on this host, and the container of a single one."""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from docker.errors import APIError, NotFound

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import Storage
from replication_lab.world import clock, files, folders, owners
from replication_lab.world.docker import engine, images, labels, machine, removal

IMAGE = "vm"
LAUNCHERS = ("uml", "kvm", "tcg")
KVM, TUN = Path("/dev/kvm"), Path("/dev/net/tun")
# The image has kernels and a root file system for these only.
PROCESSOR = "amd64"
TRIED = folders.KEPT / "kvm.json"
# The memory of a guest, as in images/vm/machine and compose/_parts.yaml, plus that of launcher, container and network.
GUEST_MIB, AROUND_MIB = 640, 120
# With a working KVM a guest answers within two seconds; with a broken one most hang before their first message.
KVM_TRIAL_SECONDS = 15
UNUSABLE = f"{KVM} is there, but a guest did not boot with it in {KVM_TRIAL_SECONDS} s"


# -- what starts a guest -----------------------------------------------------------------------------------------------


class Launcher(msgspec.Struct, frozen=True):
    """What starts guests here, and the reason, as `lab doctor` shows them."""

    name: str
    because: str


class Trial(msgspec.Struct, frozen=True):
    """The contents of kvm.json: whether a guest booted with KVM since this host was booted."""

    boot_id: str
    boots: bool


def launcher() -> Launcher:
    """Return what starts guests here: LAB_VM, else KVM if a guest boots with it, else user-mode Linux.

    The first call after a boot of the host may start a guest to find out; LabError for a LAB_VM that this host does not
    support, and if nothing can run a guest.
    """
    refuse_host()
    chosen = os.environ.get("LAB_VM", "auto")
    if chosen != "auto":
        if chosen not in LAUNCHERS:
            raise LabError(f"LAB_VM is {chosen!r}", f"auto, {', '.join(LAUNCHERS)}", "unset LAB_VM")
        if chosen == "kvm" and not KVM.exists():
            raise LabError(
                f"LAB_VM is kvm, but {KVM} does not exist",
                "a host with KVM (nested virtualization enabled)",
                "unset LAB_VM",
            )
        if chosen == "kvm" and not kvm_boots():
            raise LabError(f"LAB_VM is kvm, and {UNUSABLE}", "a /dev/kvm that boots a guest", "unset LAB_VM")
        return Launcher(chosen, "set by LAB_VM")
    if not KVM.exists():
        return Launcher("uml", f"there is no {KVM}")
    if kvm_boots():
        return Launcher("kvm", "a guest booted with it")
    return Launcher("uml", UNUSABLE)


def refuse_host() -> None:
    """Raise LabError if nothing can run a guest on the Docker engine's machine."""
    machine.refuse_rootless("virtual machines")
    if (processor := machine.facts().processor) != PROCESSOR:
        found = f"the processor is {processor}, but the image of the virtual machines is for {PROCESSOR}"
        expected = "a host with such a processor; every other topology runs on this host"
        raise LabError(found, expected, "./lab up semisync")
    # A Docker engine in another machine has devices of its own.
    if not machine.facts().elsewhere and not TUN.exists():
        raise LabError(f"{TUN} does not exist", "the device for a guest's network", "sudo modprobe tun")


def with_launcher(storages: dict[str, Storage]) -> dict[str, Storage]:
    """Return the storages with this host's launcher, if a machine is the backend."""
    return {
        node: msgspec.structs.replace(storage, launcher=launcher().name) if storage.backend == IMAGE else storage
        for node, storage in storages.items()
    }


def is_known() -> bool:
    """Return whether `launcher` answers at once, without an image to build or a guest to start."""
    return os.environ.get("LAB_VM", "auto") not in ("auto", "kvm") or not KVM.exists() or _remembered() is not None


def kvm_boots() -> bool:
    """Return whether a guest boots with KVM: tried once for each boot of the host."""
    tried = _remembered()
    if tried is None:
        tried = Trial(owners.boot(), _try_kvm())
        files.write_whole(TRIED, msgspec.json.encode(tried))
    return tried.boots


def _remembered() -> Trial | None:
    """Return the trial of this boot of the host; another kernel, or KVM enabled since, may change the result."""
    tried = files.read_own_as(TRIED, Trial)
    return tried if tried and tried.boot_id == owners.boot() else None


def _try_kvm() -> bool:
    images.ensure([IMAGE])
    name = f"replication-lab-kvm-{secrets.token_hex(4)}"
    try:
        trial = engine.client().containers.run(detach=True, **container(name, "kvm", {"LAB_SERVER": "off"}))
        clock.wait_until(
            lambda: trial.exec_run(["guest", "true"]).exit_code == 0,
            "the agent of the guest to answer",
            KVM_TRIAL_SECONDS,
        )
    except (LabError, APIError):
        # The engine refuses a device that it is not allowed to pass on, and a command in a container that has ended.
        return False
    finally:
        with suppress(NotFound):
            removal.remove_container(engine.client().containers.get(name))
    return True


def each_mib() -> int:
    """Return the memory in MiB of a machine with what is around it. Raise LabError if LAB_MEMORY is no number."""
    asked = os.environ.get("LAB_MEMORY") or str(GUEST_MIB)
    if not re.fullmatch(r"[1-9]\d*", asked):
        raise LabError(f"LAB_MEMORY is {asked!r}", "a number of MiB, such as 640", "unset LAB_MEMORY")
    return int(asked) + AROUND_MIB


# -- a container for it ------------------------------------------------------------------------------------------------


def container(name: str, launcher: str, environment: dict[str, str]) -> dict[str, Any]:
    """Return what Docker needs to start a single machine, as compose/_parts.yaml does for a topology's."""
    return {
        "image": images.PREFIX + IMAGE,
        "name": name,
        "environment": {"LAB_VM": launcher, **environment},
        # Those of a Compose project with one container, by which leftovers of a killed process are found.
        "labels": {labels.LABEL: owners.owner(), labels.PROJECT: name, labels.SERVICE: "machine"},
        "cap_drop": ["ALL"],
        "cap_add": ["NET_ADMIN"],
        "security_opt": ["no-new-privileges"],
        "devices": ["/dev/net/tun", *([str(KVM)] if launcher == "kvm" else [])],
        "tmpfs": {"/tmp": "exec,mode=1777"},
        "sysctls": {"net.ipv4.ip_forward": "1"},
    }
