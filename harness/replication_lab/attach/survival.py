"""Whether a server finds its data and its logs again in a recreated container: asked from the server itself."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import join, normpath
from typing import Any

from replication_lab.attach.compose_project import ComposeProject
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import images, volumes
from replication_lab.world.docker.attached_servers import said_in
from replication_lab.world.docker.compose_call import Container
from replication_lab.world.mysql.server import Server

DATADIR, HOME, SYSTEM_FILES = "datadir", "innodb_data_home_dir", "innodb_data_file_path"
# The variables that say where a server keeps what it needs after a restart: a folder, or the beginning of names of
# files. What is relative lies in the data directory. A server has only some of them.
PLACES = (
    DATADIR,
    HOME,
    *("innodb_log_group_home_dir", "innodb_undo_directory", "innodb_doublewrite_dir"),
    *("log_bin_basename", "log_bin_index", "relay_log", "relay_log_basename", "relay_log_index"),
    *("relay_log_info_file", "aria_log_dir_path", "wsrep_data_home_dir", "rocksdb_datadir", "rocksdb_wal_dir"),
    # Without its keys an encrypted table cannot be read.
    *("keyring_file_data", "keyring_encrypted_file_data"),
)
# Where tables lie that were created with DATA DIRECTORY, by version.
TABLES = (
    "SELECT FILE_NAME AS path FROM information_schema.FILES WHERE FILE_NAME LIKE '/%'",
    "SELECT PATH AS path FROM information_schema.INNODB_SYS_DATAFILES WHERE PATH LIKE '/%'",
    "SELECT FILENAME AS path FROM information_schema.INNODB_SYS_TABLESPACES WHERE FILENAME LIKE '/%'",
)
# Where a component of MySQL keeps the keys; one without a file has no such row.
KEYRING = (
    "SELECT STATUS_VALUE AS path FROM performance_schema.keyring_component_status"
    " WHERE STATUS_KEY = 'Data_file' AND STATUS_VALUE LIKE '/%'"
)


@dataclass(frozen=True)
class Mount:
    """A folder of a container that is not its own layer; `loses` says why its content goes, empty if it stays."""

    folder: str
    loses: str = ""


def holding(mounts: Iterable[Mount], path: str) -> Mount | None:
    """Return the mount that a path lies on, the innermost of several; None if it lies in the container's own layer."""
    found = [each for each in mounts if PurePosixPath(path).is_relative_to(each.folder)]
    return max(found, key=lambda each: len(PurePosixPath(each.folder).parts), default=None)


def mounts_of(attrs: Mapping[str, Any], inherited: Collection[str], in_memory: Collection[str]) -> list[Mount]:
    """Return the mounts of a container, as the engine describes it.

    Compose hands a volume without a name on to the recreated container at the folders in `inherited`: those that its
    image or its service declares. `in_memory` are the names of volumes on tmpfs.
    """
    found = [Mount(folder, "is a tmpfs") for folder in attrs["HostConfig"].get("Tmpfs") or {}]
    named = {each.partition(":")[0] for each in attrs["HostConfig"].get("Binds") or []}
    named |= {each.get("Source", "") for each in attrs["HostConfig"].get("Mounts") or []}
    for mount in attrs.get("Mounts", []):
        name, folder = mount.get("Name", ""), mount["Destination"]
        if mount["Type"] == "tmpfs":
            found.append(Mount(folder, "is a tmpfs"))
        elif name in in_memory:
            found.append(Mount(folder, f"is the volume {name}, which is in memory"))
        elif mount["Type"] == "volume" and name not in named and folder not in inherited:
            found.append(Mount(folder, "is a volume without a name, which Compose does not keep"))
        else:
            found.append(Mount(folder))
    return found


def places(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the path that each variable of a server names, by the variable; `settings` are its global variables."""
    datadir = settings.get(DATADIR, "")
    found = {
        name: normpath(join(datadir, value))
        for name in PLACES
        # The server's default lies in its data directory.
        if (value := settings.get(name, "")) not in ("", "NULL", "None")
    }
    home = found.get(HOME, datadir)
    for number, file in enumerate(settings.get(SYSTEM_FILES, "").split(";")):
        if path := file.partition(":")[0]:
            found[SYSTEM_FILES if not number else f"{SYSTEM_FILES} ({path})"] = normpath(join(home, path))
    return found


def lost(found: Mapping[str, str], kept: Iterable[Mount]) -> dict[str, str]:
    """Return why each of these paths does not survive a recreation of its container, by the variable; empty if all do.

    `kept` are the mounts of the container.
    """
    reasons = {}
    every = [*kept]
    for name, path in found.items():
        mount = holding(every, path)
        if mount is None:
            reasons[name] = f"{path}, which is on no volume"
        elif mount.loses:
            reasons[name] = f"{path}; {mount.folder} {mount.loses}"
    return reasons


def check(project: ComposeProject, service: str, server: Server, container: Container) -> None:
    """Refuse to recreate the container of a server that would not find its data or logs again."""
    found = places(server.settings(*PLACES, SYSTEM_FILES))
    found |= _asked(server, "a table", TABLES) | _asked(server, "the keyring", [KEYRING])
    if DATADIR not in found:
        raise LabError(
            f"{service} does not say where its data are (datadir), and a link from it would recreate its container",
            "an account that may read the server's variables",
            project.compose("config", service),
        )
    # Without symbolic links, if the container has a tool for that.
    real = {name: said_in(container, "readlink", "-f", path).strip() or path for name, path in found.items()}
    attrs, declared = container.attrs, project.service(service)
    without_source = {each["target"] for each in declared.get("volumes") or [] if not each.get("source")}
    names = {mount["Name"] for mount in attrs.get("Mounts", []) if mount.get("Name")}
    inherited = without_source | set(images.volumes(attrs["Config"]["Image"]))
    if reasons := lost(real, mounts_of(attrs, inherited, set(filter(volumes.is_in_memory, names)))):
        listed = "\n  ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise LabError(
            f"a link from {service} would recreate its container, and its server would lose\n  {listed}",
            f"a volume with a name, or a folder of the host, for each of these folders of {service}; before it is "
            "added, the data can be saved",
            f"docker cp {container.name}:{found[DATADIR]} ./{service}-data",
        )


def _asked(server: Server, what: str, statements: Iterable[str]) -> dict[str, str]:
    """Return the paths that the first of these statements gives which the server knows."""
    for statement in statements:
        with suppress(LabError):
            return {f"{what} in {row['path']}": str(row["path"]) for row in server.rows(statement)}
    return {}
