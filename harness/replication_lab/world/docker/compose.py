"""`docker compose up` for files of a lab, and what it waits for: that services are healthy, or cannot become it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replication_lab.model.core.errors import LabError, as_lab_error
from replication_lab.world import at_once, catalogue, clock, lab_files
from replication_lab.world.docker import labels, machine, not_started, sites
from replication_lab.world.docker.engine import command_for
from replication_lab.world.docker.lab import Lab

# `docker compose up --wait` asks twice a second: a lab would wait a quarter of a second for nothing.
LOOK_SECONDS, LOOK_CLOSELY_SECONDS = 0.05, 0.5
# A lab of two sites starts within this time.
LONG_SECONDS = 15


@dataclass(frozen=True)
class Project:
    """The Compose files of a lab, and the engine that each service runs on, if there are several.

    The engines are named by their endpoints, empty for the command's own. `nodes_apart` says that nodes, which depend
    on each other, are on several.
    """

    lab: Lab
    files: tuple[Path, ...]
    profiles: tuple[str, ...] = ()
    engines: Mapping[str, str] = field(default_factory=dict)
    nodes_apart: bool = False

    def up(self, services: Sequence[str] = ()) -> None:
        """Start services (all by default) and wait until each is healthy, or runs if it has no health check.

        LabError, with what Compose or a service says, if that fails, or as soon as one cannot become healthy.
        """
        at: dict[str, list[str]] = {}
        for each in (services or self.engines) if self.engines else ():
            at.setdefault(self.engines.get(each, ""), []).append(each)
        # All engines at once: nodes of a cluster wait for each other.
        apart = ("--no-deps",) if self.nodes_apart else ()
        try:
            at_once.of_each(lambda engine: self._call("up", "--detach", *apart, *at[engine], engine=engine), at)
            if not self.engines:
                self._call("up", "--detach", *services)
        except subprocess.CalledProcessError as error:
            raise not_started.why_not_started(self.lab, _said(error)) from error
        began = looked = clock.timer()
        crosses_sites = bool(sites.of(self.lab.name))
        while not self._is_healthy(services):
            if clock.timer() - looked >= LOOK_CLOSELY_SECONDS:
                looked = clock.timer()
                if not_started.has_lost_one(self.lab.name, services):
                    raise not_started.why_not_started(self.lab)
                # If its sites drop large packets, replicas wait for minutes for what never arrives. It is asked once.
                if crosses_sites and clock.timer() - began >= LONG_SECONDS:
                    crosses_sites = False
                    self.lab.refresh()
                    if dropped := not_started.dropped_packets(self.lab):
                        raise dropped
            clock.pause(LOOK_SECONDS)

    def make_again(self, service: str) -> None:
        """Make the container of a service again if its files have changed, without starting it.

        LabError, with what Compose says, if that fails.
        """
        engine = self.engines.get(service, "")
        try:
            self._call("up", "--no-start", "--no-deps", service, engine=engine)
        except subprocess.CalledProcessError as error:
            raise not_started.failed(_said(error)) from error
        self.lab.refresh()
        if _is_elsewhere(engine):
            # Newer versions of Compose write texts only when they start a container themselves.
            resolved = self._resolved(engine)
            texts = _texts(resolved)
            for one in resolved["services"][service].get("configs", ()):
                if one["source"] in texts:
                    mode = one.get("mode", 0o444)
                    mode = int(mode, 8) if isinstance(mode, str) else mode
                    self.lab.service(service).put(one["target"], texts[one["source"]].encode(), mode=mode)

    def _call(self, *words: str, engine: str = "") -> None:
        sent = self._with_texts(engine) if _is_elsewhere(engine) else b""
        self._run(*(("-f", "-") if sent else ()), *words, engine=engine, given=sent)

    def _with_texts(self, engine: str) -> bytes:
        """Return a Compose file that has the texts of the files which the lab's files name.

        Docker mounts a file from the engine's machine, where it need not be; Compose itself writes a text into the
        containers.
        """
        resolved = self._resolved(engine)
        _refuse_own_files(resolved, engine)
        # Compose replaces what begins with "$"; JSON is YAML.
        texts = {
            name: json.dumps(text.replace("$", "$$"), ensure_ascii=False) for name, text in _texts(resolved).items()
        }
        lines = [f"  {name}: !override {{content: {text}}}" for name, text in texts.items()]
        return "\n".join(["configs:", *lines]).encode()

    def _resolved(self, engine: str) -> dict[str, Any]:
        """Return all files of the lab as one document, with the paths of files."""
        try:
            return json.loads(self._run("config", "--format", "json", engine=engine))
        except subprocess.CalledProcessError as error:
            found = f"docker compose cannot read the files of {self.lab.name}:\n  {_said(error)}"
            raise LabError(found, "Compose files without errors", "./lab doctor") from error

    def _run(self, *words: str, engine: str, given: bytes = b"") -> bytes:
        command = [*command_for(engine), "compose", *(word for file in self.files for word in ("-f", str(file)))]
        command += ["--env-file", str(lab_files.file_of(self.lab.name, lab_files.SETTINGS))]
        command += [*(word for name in self.profiles for word in ("--profile", name)), *words]
        # A variable ENGINE in this process's environment would override that file.
        settings = {**os.environ, **lab_files.settings(self.lab.name)}
        return subprocess.run(
            command, cwd=catalogue.ROOT, env=settings, input=given, capture_output=True, check=True
        ).stdout

    def _is_healthy(self, services: Sequence[str]) -> bool:
        found = labels.health(self.lab.name)
        return bool(found) and all(
            said in ("healthy", "running") for name, said in found.items() if name in services or not services
        )


def _is_elsewhere(engine: str) -> bool:
    return bool(engine or machine.facts().elsewhere)


def _said(error: subprocess.CalledProcessError) -> str:
    return error.stderr.decode(errors="replace").strip()


def _texts(resolved: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the files that resolved files name as configs, by the config."""
    texts = {}
    for name, config in resolved.get("configs", {}).items():
        if "file" in config:
            with as_lab_error((OSError, UnicodeError), f"the config {name}", "a text file", "./lab doctor"):
                texts[name] = Path(config["file"]).read_bytes().decode()
    return texts


def _refuse_own_files(resolved: Mapping[str, Any], engine: str) -> None:
    """Raise LabError for a service that mounts a file or a folder of this checkout on another machine."""
    if not engine and machine.is_near():
        return
    for service, declared in resolved.get("services", {}).items():
        for each in declared.get("volumes") or ():
            if each["type"] == "bind" and Path(each["source"]).is_relative_to(catalogue.ROOT):
                raise LabError(
                    f"{service} mounts {each['source']}, which the engine's machine does not have",
                    "a file among the `configs` of the Compose file: its text is sent there",
                    "./lab doctor",
                )
