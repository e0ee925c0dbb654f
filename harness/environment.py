"""Make the project's Python environment, .venv, from hash-locked lists, and then run a command of the lab in it.

    python3 harness/environment.py up semisync

The launcher runs this file with a Python that has the module venv and nothing else. uv installs the libraries, because
pip takes four times as long; pip, which Python brings along, only installs uv. If the command starts a lab, the Docker
engine is started or installed meanwhile, and the base of the images is made.
"""

import ast
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

from replication_lab.model.core.command import STARTING_LABS
from replication_lab.model.core.errors import LabError
from replication_lab.world.docker import base_image, own_engine

ROOT = Path(__file__).resolve().parents[1]
VENV, LOCK = ROOT / ".venv", ROOT / ".venv.lock"
PYTHON, INSTALLED = VENV / "bin" / "python", VENV / "installed.txt"
LIST, UV = ROOT / "harness" / "requirements.txt", ROOT / "harness" / "uv.txt"
REPAIR = "rm -rf .venv; ./lab doctor"
# The pip of Python's ensurepip, run from its wheel: to install pip itself would take longer than all the libraries.
PIP = """
import ensurepip, glob, os, runpy, sys, sysconfig
wheels = sysconfig.get_config_var("WHEEL_PKG_DIR") or os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
sys.path.insert(0, max(glob.glob(os.path.join(wheels, "pip-*.whl"))))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
# Settings of pip, and the variables by which uv takes the same ones.
SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
}
# Of a setting that is given several times the later place counts, as for pip.
PLACES = ("global", "install", ":env:")


class Commands:
    """Commands that run one after another in a thread, until one fails or another thread stops them."""

    def __init__(self) -> None:
        self._guard, self._stopped = threading.Lock(), False
        self._running: list[subprocess.Popen[str]] = []

    def begin(self, *command: str | Path, variables: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start a command; LabError after `stop`."""
        with self._guard:
            if self._stopped:
                raise LabError("the environment was not made: another part failed")
            begun = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
            self._running.append(begun)
            return begun

    def run(self, *command: str | Path, error: LabError, variables: Mapping[str, str] | None = None) -> None:
        """Run a command, whose messages are shown; `error` if it fails."""
        begun = self.begin(*command, variables=variables)
        print(begun.communicate()[0], end="", file=sys.stderr, flush=True)
        if begun.returncode:
            raise error

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            for each in self._running:
                if each.poll() is None:
                    each.terminate()


def main(command: Sequence[str]) -> None:
    """Make the environment unless another command just did, and become that command; exit with status 2 if it fails."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with LOCK.open("a") as lock:
            _wait_for_others(lock.fileno())
            if not _is_current():
                _make(command)
    except KeyboardInterrupt as stop:
        print(f"stopped ({stop.args[0].name}); the next command makes .venv", file=sys.stderr)
        sys.exit(128 + stop.args[0])
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    os.execv(PYTHON, [str(PYTHON), "-m", "replication_lab", *command])


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number))


def _wait_for_others(lock: int) -> None:
    """Wait until no other command makes the environment. On a file system without locks nothing is locked."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("waiting for another command that makes .venv", file=sys.stderr, flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        pass


def _is_current() -> bool:
    return PYTHON.exists() and INSTALLED.exists() and INSTALLED.read_bytes() == LIST.read_bytes()


def _make(command: Sequence[str]) -> None:
    said = "making .venv (the harness's Python libraries, from the hash-locked list; once, up to a minute)"
    print(said, file=sys.stderr, flush=True)
    steps = Commands()
    with ThreadPoolExecutor(1) as beside:
        filled = beside.submit(_fill, steps)
        try:
            # Here, where a terminal can be asked, and an installation by apt is not ended by another part's error.
            if starts_a_lab(command):
                _prepare_engine()
            # A signal that comes just before a wait without a limit does not end it.
            while not wait([filled], timeout=0.1).done:
                pass
            filled.result()
        except BaseException:
            steps.stop()
            raise


def starts_a_lab(command: Sequence[str]) -> bool:
    """Return whether a command will need an engine, as far as its words show.

    Without the libraries a name cannot be checked. One that is no topology or experiment of this checkout may be wrong,
    and is refused before anything is installed for it.
    """
    if not command or command[0] not in STARTING_LABS or {"-h", "--help"} & set(command):
        return False
    name = next((word for word in command[1:] if not word.startswith("-")), "")
    folders = (ROOT / "compose", ROOT / "harness" / "replication_lab" / "experiments")
    return not name or name in {path.stem for folder in folders for path in folder.glob("[!_]*.*")}


def _prepare_engine() -> None:
    """Start or install this machine's engine, if the lab will use it; make the base image for the first images."""
    if os.environ.get("DOCKER_HOST") or (not own_engine.answers() and own_engine.elsewhere()):
        return
    own_engine.provide()
    if base_image.is_first():
        base_image.make()


def _fill(steps: Commands) -> None:
    """Make the environment. The list is copied last: an interrupted environment is made again, never used."""
    shutil.rmtree(VENV, ignore_errors=True)
    python = f"{sys.executable} -m venv"
    unmade = LabError(f"the Python environment could not be made in {VENV}", f"{python} to succeed", REPAIR)
    steps.run(sys.executable, "-m", "venv", "--without-pip", VENV, error=unmade)
    install(LIST, steps)
    # The package itself, where it lies: every tool of this environment imports it by name.
    paths = {"base": str(VENV), "platbase": str(VENV)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    (packages / "replication-lab.pth").write_text(f"{ROOT / 'harness'}\n")
    # Compile now, on all CPUs: where PYTHONDONTWRITEBYTECODE is set every command would compile again. What cannot be
    # compiled only makes commands start later. Nearly half of numpy and scipy are their own tests.
    compiled = steps.begin(PYTHON, "-m", "compileall", "-qq", "-j", "0", "-x", "/tests/", packages, ROOT / "harness")
    compiled.communicate()
    shutil.copy(LIST, INSTALLED)


def install(listed: Path, steps: Commands | None = None) -> None:
    """Install a hash-locked list into .venv by uv, and uv itself first if it is missing; LabError if that fails."""
    steps, uv = steps or Commands(), VENV / "bin" / "uv"
    failed = LabError("the Python libraries could not be installed", "pip and uv to succeed", REPAIR)
    pip = (PYTHON, "-c", PIP)
    settings = steps.begin(*pip, "config", "list")
    if not uv.exists():
        options = ("-q", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:", "--require-hashes")
        steps.run(*pip, "install", *options, "-r", UV, error=failed)
    said = settings.communicate()[0]
    # The only one of these settings without a variable of uv's.
    only_given = ["--no-index"] if re.search(r"\.no-index='(1|true|yes|on)'", said) else []
    command = (uv, "pip", "install", "-q", "--python", PYTHON, *only_given, "--require-hashes", "-r", listed)
    steps.run(*command, error=failed, variables={**uv_settings(said), **os.environ})


def uv_settings(listed: str) -> dict[str, str]:
    """Return the variables that give uv what `pip config list` prints: a company's index, certificates, proxy.

    uv reads no settings of pip. A variable that is set already is to be preferred to these.
    """
    # A certificate authority of the company's is in the host's own list.
    found = {"UV_SYSTEM_CERTS": "true"}
    for place in PLACES:
        for line in listed.splitlines():
            name, is_setting, value = line.partition("=")
            where, _, key = name.rpartition(".")
            if is_setting and where == place and key in SETTINGS:
                words = str(ast.literal_eval(value)).split()
                found[SETTINGS[key]] = ("," if key == "find-links" else " ").join(words)
    if "UV_INDEX" in found:
        # pip takes a version from any index, uv from the first that has the package. The hashes decide in both cases.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
