"""Disks: how much one of them can do, and the named ones of compose/storage/disks.yaml."""

import msgspec

from replication_lab.model.errors import LabError

WHERE = "compose/storage/disks.yaml"
BLOCK_BYTES = 4096


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a disk can do: requests a second, bytes a second (None: no limit), microseconds of a flush.

    Of the two rates the one that takes longer counts for a request. Making one with a bad figure is a LabError, so
    that none exists.
    """

    read_iops: int | None = None
    write_iops: int | None = None
    bandwidth: int | None = None
    flush_us: int = 0
    write_cache: bool = False

    def __post_init__(self) -> None:
        for name in ("read_iops", "write_iops", "bandwidth"):
            figure = getattr(self, name)
            if figure is not None and figure < 1:
                raise LabError(
                    f"a disk with {name} {figure}", "1 or more, or none at all for no limit", f"compare with {WHERE}"
                )
        if self.flush_us < 0:
            raise LabError(f"a disk with flush_us {self.flush_us}", "0 or more", f"compare with {WHERE}")

    def costs(self) -> str:
        """What a write and a flush take, in words: what a figure measured on it belongs to."""
        write = f"{1000 / self.write_iops:.3g} ms" if self.write_iops else "no time"
        flush = f"{self.flush_us / 1000:.3g} ms" if self.flush_us else "no time"
        return f"a write takes {write}, a flush {flush}, {'a volatile' if self.write_cache else 'no volatile'} cache"


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named disk: what it is, what it can do, and where the figures come from."""

    about: str
    limits: Limits
    because: str


def parse_disks(text: str | bytes) -> dict[str, Disk]:
    """The named disks from the text of their file; LabError names the key or the figure that is wrong."""
    try:
        return msgspec.yaml.decode(text, type=dict[str, Disk])
    except msgspec.DecodeError as error:
        raise LabError(
            f"{WHERE} cannot be read: {error}", "disks with about, limits and because", f"compare with {WHERE} of git"
        ) from error


def check_size(bytes_: int) -> int:
    """The size of a disk in bytes, as it was given; LabError unless it is some whole blocks of 4096 bytes."""
    if bytes_ < BLOCK_BYTES or bytes_ % BLOCK_BYTES:
        raise LabError(f"a disk of {bytes_} bytes", "a multiple of 4096, more than 0", "ask for 1 << 30, one GiB")
    return bytes_
