"""The statements and names of each family of servers: dialects.yaml."""

from functools import cache
from pathlib import Path

import msgspec

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.server_version import Version


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The names of the replica status columns."""

    io: str
    sql: str
    host: str
    port: str
    io_error: str
    sql_error: str
    lag: str
    received_file: str
    received_place: str
    applied_file: str
    applied_place: str
    # Empty on a server without GTIDs.
    received_gtids: str = ""


class RedoNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The status variables of the redo log: the byte written last, and the one up to which pages are on the disk."""

    written: str
    checkpoint: str


class LockNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The statements by which a backup takes a lock, and one that it excludes and that changes nothing."""

    take: list[str]
    excludes: str


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of dialects.yaml; `family`, `since` and `before` tell the versions that it is for."""

    family: str
    since: tuple[int, ...]
    semisync_source: str
    semisync_replica: str
    replica_status: str
    # The replicas that are connected to a server, each with its Server_id.
    followers: str
    # The state of a server's own log: its end and its filters; the statements of different versions.
    log_status: list[str]
    columns: Columns
    start: str
    stop: str
    start_io: str
    stop_io: str
    change_source: str
    position: str
    wait_for_position: str
    stop_applier: str
    start_applier: str
    # What comes before `start_applier` if both threads are stopped, on a server that deletes its relay log then.
    keep_relay_log: str = ""
    # What lets a stopped replica forget its relay log, and receive again what it has not applied.
    again: str = ""
    # The state of every channel, where `replica_status` shows only the one without a name.
    channels: str = ""
    counts_parts: bool = False
    # How to wait for a position as a file and a place in it, on a server that can be without GTIDs.
    wait_for_file: str = ""
    before: tuple[int, ...] = ()
    # The variable with the number of replicas that a semi-synchronous commit waits for; empty on a server without it.
    semisync_count: str = ""
    # How a server counts transactions, and its redo log; 5.5 does neither.
    transactions: str = ""
    redo: RedoNames | None = None
    # What delays the applier; with `delay_deletes_relay_log` it stops both threads, which deletes the relay log.
    delay: list[str] = []
    delay_deletes_relay_log: bool = False
    # The locks of backups, by name.
    locks: dict[str, LockNames] = {}
    # The settings that were set, as columns name and value; older servers do not tell.
    changed: str = ""
    acknowledged_in_groups: bool = False
    # Statements for another source than the Compose file's; not possible on a server without GTIDs.
    gtids: str = ""
    forget: str = ""
    # The state of an event that was replicated, in CREATE EVENT.
    disabled_event: str = ""
    use_gtids: str = ""
    follow: str = ""
    resume: str = ""
    reset: list[str] = []
    reset_gtids_to: list[str] = []


# Prepared at import: msgspec crashes (SIGSEGV) if several threads are the first to use a type at the same moment.
msgspec.json.Decoder(Dialect)


@cache
def dialects() -> dict[str, Dialect]:
    return msgspec.yaml.decode((Path(__file__).parent / "dialects.yaml").read_bytes(), type=dict[str, Dialect])


def dialect_of(version: Version) -> str:
    """Return the name of the dialect that a server of this version takes; LabError if none fits."""
    for name, each in dialects().items():
        is_before = not each.before or version.numbers < each.before
        if each.family == version.family and each.since <= version.numbers and is_before:
            return name
    known = ", ".join(f"{each.family} {_range(each)}" for each in dialects().values())
    raise LabError(f"{version} is not a supported version", f"one of {known}", "./lab list engines")


def _range(dialect: Dialect) -> str:
    since, before = (".".join(map(str, numbers)) for numbers in (dialect.since, dialect.before))
    return f"{since} and later, before {before}" if before else f"{since} and later"
