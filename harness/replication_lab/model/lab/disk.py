"""Disk limits, and the named disk models of compose/storage/disks.yaml."""

import msgspec

from replication_lab.model.core.errors import LabError, as_lab_error

WHERE = "compose/storage/disks.yaml"
BLOCK_BYTES = 4096


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a disk: requests a second, bytes a second (None: no limit), microseconds of a flush.

    A request takes the longer of the two times that follow from the rates. Raise LabError on creation for a value that
    is out of range.
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
                    f"{name} of a disk is {figure}", "1 or more, or no value for no limit", f"compare with {WHERE}"
                )
        if self.flush_us < 0:
            raise LabError(f"flush_us of a disk is {self.flush_us}", "0 or more", f"compare with {WHERE}")

    @property
    def reads_per_second(self) -> int:
        """The limit of reads; LabError if there is none."""
        return _limited("read_iops", self.read_iops)

    @property
    def writes_per_second(self) -> int:
        """The limit of writes; LabError if there is none."""
        return _limited("write_iops", self.write_iops)

    def costs(self) -> str:
        """Return the time of a write and of a flush in words, to state with every figure measured on the disk."""
        write = f"{1000 / self.write_iops:.3g} ms" if self.write_iops else "no time"
        flush = f"{self.flush_us / 1000:.3g} ms" if self.flush_us else "no time"
        return f"a write takes {write}, a flush {flush}, {'a volatile' if self.write_cache else 'no volatile'} cache"


def _limited(name: str, figure: int | None) -> int:
    if figure is None:
        raise LabError(f"a disk without {name}", "a disk with that limit", f"compare with {WHERE}")
    return figure


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named disk: what it is, its limits, and where the figures come from."""

    about: str
    limits: Limits
    because: str


def parse_disks(text: str | bytes) -> dict[str, Disk]:
    """Return the named disks from the text of their file; LabError names the key or the figure that is wrong."""
    with as_lab_error(
        msgspec.DecodeError,
        f"{WHERE} cannot be read",
        'disks with the keys "about", "limits" and "because"',
        f"compare with {WHERE} of git",
    ):
        return msgspec.yaml.decode(text, type=dict[str, Disk])


def check_size(bytes_: int) -> int:
    """Return the size of a disk in bytes unchanged; LabError unless it is a multiple of 4096 bytes, more than 0."""
    if bytes_ < BLOCK_BYTES or bytes_ % BLOCK_BYTES:
        expected = "a multiple of 4096, more than 0"
        raise LabError(f"the size of a disk is {bytes_} bytes", expected, "use 1 << 30, one GiB")
    return bytes_
