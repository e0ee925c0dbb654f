"""A DockerCompose of Testcontainers as an attached project, with the lab's drills."""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testcontainers.compose import DockerCompose

from replication_lab import runs
from replication_lab.attach import attach, drills
from replication_lab.attach.checks import parse_link
from replication_lab.attach.compose_project import split_files
from replication_lab.attach.plan import AskedAttachment, plan, warnings
from replication_lab.faults.condition import toxic_of
from replication_lab.faults.link_proof import prove_link
from replication_lab.model.core.errors import LabError, Unproved
from replication_lab.probes.round_trip import RoundTrip
from replication_lab.report import DrillsSummary
from replication_lab.world.docker import compose_call, labels
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.mysql.accounts import Account

SEED = 7


@dataclass
class AttachedProject:
    """A project with links through the lab; `remarks` is what the attaching said of it."""

    lab: AttachedLab
    remarks: list[str] = field(default_factory=list)

    @property
    def drills(self) -> list[str]:
        """The names of the drills that the project can have."""
        return list(drills.known(self.lab))

    def drill(
        self, name: str, *, seconds: float | None = None, seed: int = SEED, probe: str = ""
    ) -> tuple[Path, DrillsSummary]:
        """Run one drill; return the folder of its record, ledger and report, and its summary.

        `name` is one of `drills`, `probe` a URL or a command in the application's container, which is repeated.
        """
        chosen = drills.chosen(self.lab, name, seconds)
        asked = drills.probe_of(self.lab, probe) if probe else None
        return runs.drill_attached(self.lab, drills.probed(chosen) if asked else chosen, seed, print, asked)


@contextmanager
def lab_from(
    compose: DockerCompose, *links: str, rtt: str = "none", accounts: Mapping[str, tuple[str, str]] | None = None
) -> Iterator[AttachedProject]:
    """Attach links, such as "app:db", of a project that was started, for the block; detach it at the end.

    `accounts` are a user and a password by server, where the environment of its container has none. The applications'
    containers are recreated at both ends. Raise Unproved if a link did not have its condition at the end, or was not
    used; LabError if it cannot be attached, or is not as before.
    """
    found = plan(_asked(compose, links, accounts or {}))
    lab, _ = attach.attach(found, rtt, print)
    try:
        yield AttachedProject(lab, warnings(found))
        _refuse_unproved(lab, rtt)
    finally:
        done = attach.detach(lab.name, print)
    if done.broken:
        raise done.broken
    if done.differences:
        raise LabError(
            f"{lab.name} is not as before: {'; '.join(done.differences)}",
            "the same containers",
            f"docker compose --project-name {lab.name} up --detach",
        )


def _asked(compose: DockerCompose, links: tuple[str, ...], accounts: Mapping[str, tuple[str, str]]) -> AskedAttachment:
    there = compose.get_containers()
    if not there:
        raise LabError(
            f"nothing of {compose.context} runs",
            "a DockerCompose that was started",
            "compose.start(), or a `with` block",
        )
    project = there[0].Project or ""
    marks = next(each.labels for found in compose_call.containers(project).values() for each in found)
    given = compose.env_file or []
    env_files = [given] if isinstance(given, str) else given
    return AskedAttachment(
        links=[parse_link(text) for text in links],
        # Those that it was started from: it may have found them by their usual names.
        files=split_files(marks[labels.CONFIG_FILES]),
        project=project,
        env_files=[os.path.join(compose.context, each) for each in env_files],
        profiles=compose.profiles or [],
        accounts={node: Account(*account, "accounts of lab_from") for node, account in accounts.items()},
    )


def _refuse_unproved(lab: AttachedLab, rtt: str) -> None:
    lab.refresh()
    for link in lab.topology.links:
        with closing(RoundTrip(lab.link(link.name))) as probe:
            proof = prove_link(probe, toxic_of(rtt), in_use=True)
        if not proof.ok:
            raise Unproved(f"{proof.what}: {proof.found}", proof.expected, f"./lab status --lab {lab.name}")
        if not lab.leads_through(link.name) or not lab.crossed_by(link.name):
            raise Unproved(
                f"link {link.name}: {lab.use(link.name)}",
                "connections across the link",
                f"./lab status --lab {lab.name}",
            )
