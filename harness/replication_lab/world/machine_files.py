"""The files of /proc and /sys in which a kernel tells what its machine does: this machine's, or another one's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class MachineFiles:
    """The files of this machine, read when they are asked for; or those of another one as `held` has them, by path.

    A folder has the names of its entries as its text, a line for each.
    """

    held: Mapping[str, str] | None = None

    @property
    def has_this_process(self) -> bool:
        """Whether this process runs on that machine, where it has the same number: both were booted at once."""
        return self.held is None or (Path(BOOT).exists() and self.text(BOOT) == HERE.text(BOOT))

    def text(self, path: Path | str) -> str:
        """Return a file's text; OSError if there is none."""
        if self.held is None:
            return Path(path).read_text(errors="replace")
        try:
            return self.held[str(path)]
        except KeyError as error:
            raise FileNotFoundError(path) from error

    def names(self, folder: Path | str) -> list[str]:
        """Return the names of a folder's entries; OSError if there is none."""
        if self.held is None:
            return [each.name for each in Path(folder).iterdir()]
        return self.text(folder).splitlines()


HERE = MachineFiles()
