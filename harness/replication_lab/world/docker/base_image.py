"""The base of the lab's images: pulled, or made from the packages of this machine's own mirror.

The launcher makes it while the lab's libraries are still being installed, so this file uses Python's own only.
"""

import os
import shutil
import subprocess
import sys

from replication_lab.model.core.errors import LabError
from replication_lab.world import folders, installing

NAME, PULLED = "replication-lab/base", "debian:trixie-slim"
OWN = "replication-lab/*"
# In a release: the images that were published with it, with their digests. They are pulled, without their base.
RELEASED = folders.DATA / "images" / "released.digests"


def is_first() -> bool:
    """Return whether the engine has none of the lab's images, and they will be built; False if it does not tell."""
    source = os.environ.get("LAB_IMAGES", "") or ("released" if RELEASED.is_file() else "none")
    if source != "none":
        return False
    listed = subprocess.run(["docker", "image", "ls", "--quiet", OWN], capture_output=True, text=True, check=False)
    return not listed.returncode and not listed.stdout.strip()


def make() -> None:
    """Pull the base, or make it if no registry answers; LabError with the last lines of what failed."""
    pulled = subprocess.run(["docker", "pull", "--quiet", PULLED], capture_output=True, check=False)
    if not pulled.returncode:
        subprocess.run(["docker", "tag", PULLED, NAME], check=True)
        return
    print("making the base image (no image registry answers)", file=sys.stderr, flush=True)
    _need_mmdebstrap()
    sudo = ["sudo"] if os.geteuid() else []
    with subprocess.Popen(
        [*sudo, "sh", folders.DATA / "images" / "base" / "make"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as maker:
        imported = subprocess.run(
            ["docker", "import", "--change", 'CMD ["bash"]', "-", NAME],
            stdin=maker.stdout,
            capture_output=True,
            text=True,
            check=False,
        )
        reason = maker.stderr.read().decode(errors="replace") if maker.stderr else ""
    if maker.returncode or imported.returncode:
        raise LabError(
            f"building the base image failed:\n{last_lines(reason + imported.stderr)}",
            "mmdebstrap to succeed",
            "./lab doctor",
        )


def _need_mmdebstrap() -> None:
    if shutil.which("mmdebstrap"):
        return
    if not shutil.which("apt-get"):
        raise LabError(
            "no image registry answers and there is no mmdebstrap",
            "an image registry or mmdebstrap",
            f"docker pull {PULLED}",
        )
    why = "mmdebstrap (it makes the base image; no image registry answers)"
    change = installing.HostChange(why, [[*installing.APT_INSTALL, "mmdebstrap"]], ["mmdebstrap"])
    installing.allow(change)
    installing.make(change)


def last_lines(text: str, count: int = 15) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-count:])
