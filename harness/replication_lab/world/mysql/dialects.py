"""The statements and names of each family of servers: dialects.yaml."""

from functools import cache
from pathlib import Path

import msgspec


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


class RedoNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The status variables of the redo log: the byte written last, and the one up to which pages are on the disk."""

    written: str
    checkpoint: str


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of dialects.yaml."""

    semisync_source: str
    semisync_replica: str
    replica_status: str
    columns: Columns
    start: str
    stop: str
    start_io: str
    stop_io: str
    change_source: str
    position: str
    wait_for_position: str
    stop_applier: str
    # How a server counts transactions, and its redo log; 5.5 does neither.
    transactions: str = ""
    redo: RedoNames | None = None
    acknowledged_in_groups: bool = False
    # Statements for another source than the Compose file's; not possible on a server without GTIDs.
    gtids: str = ""
    forget: str = ""
    follow: str = ""
    resume: str = ""
    reset: list[str] = []
    reset_gtids_to: list[str] = []


@cache
def dialects() -> dict[str, Dialect]:
    return msgspec.yaml.decode((Path(__file__).parent / "dialects.yaml").read_bytes(), type=dict[str, Dialect])
