"""Images for arm64, built by emulation beside those of this machine: replication-lab-arm64/NAME."""

import os
import subprocess
from pathlib import Path

from docker.errors import ImageNotFound
from replication_lab.world import catalogue
from replication_lab.world.docker import bake_file, engine, images

EMULATOR = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
PREFIX, PLATFORM, BASE = "replication-lab-arm64/", "linux/arm64", "replication-lab/base"


def is_emulated() -> bool:
    """Return whether this kernel runs programs for arm64, also in containers: the emulator was opened beforehand."""
    known = EMULATOR.read_text().splitlines() if EMULATOR.is_file() else []
    return any(line.startswith("flags:") and "F" in line for line in known)


def built(name: str) -> str:
    """Return the name of an image for arm64 of this recipe; it is built, with its base, if it is missing."""
    if _recipe(name) != bake_file.digest(name):
        if _recipe("base") is None:
            _make_base()
        _bake(name)
    return PREFIX + name


def _recipe(name: str) -> str | None:
    """Return the recipe that an image was built of; None if it is not there."""
    try:
        return str(engine.client().images.get(PREFIX + name).labels.get(bake_file.RECIPE, ""))
    except ImageNotFound:
        return None


def _make_base() -> None:
    made = subprocess.Popen(
        ["sh", catalogue.ROOT / "images" / "base" / "make"],
        stdout=subprocess.PIPE,
        env={**os.environ, "LAB_ARCHITECTURE": "arm64"},
    )
    importing = ["docker", "import", "--platform", PLATFORM, "--change", 'CMD ["bash"]', "-", f"{PREFIX}base"]
    subprocess.run(importing, stdin=made.stdout, check=True, capture_output=True)
    assert made.wait() == 0


def _bake(name: str) -> None:
    target = bake_file.target(name)
    settings = {
        "*.platform": PLATFORM,
        f"{target}.tags": PREFIX + name,
        f"{target}.labels.{bake_file.RECIPE}": bake_file.digest(name),
        f"{target}.contexts.{BASE}": f"docker-image://{PREFIX}base",
    }
    bundle = next((each for each in images.CA_BUNDLES if Path(each).exists()), None)
    secret = ["--set", f"*.secrets=id=ca,src={bundle}"] if bundle else []
    chosen = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = ["docker", "buildx", "bake", "--progress", "plain", "-f", str(bake_file.path()), *chosen, *secret, target]
    baked = subprocess.run(command, cwd=catalogue.ROOT, capture_output=True, text=True, check=False)
    assert baked.returncode == 0, baked.stderr[-3000:]
