"""A load by a command of the user's, in a container of the user's image beside those of the lab."""

from dataclasses import dataclass, replace

from replication_lab.model.core.errors import LabError
from replication_lab.model.question.command_load import even, lasted, lines_of, moments_of, seconds_of
from replication_lab.model.question.load import kept
from replication_lab.workloads.timed_script import Timed, rates
from replication_lab.world.docker.lab import Lab

SERVICE = "load-command"
PORT = 3306
# Seconds; a command that runs for this much longer than its load is stuck.
MORE_SECONDS = 60
TRY_SECONDS, TRY_RATE = 1, 20


@dataclass(frozen=True)
class OwnCommand:
    """Run `command` by `sh` in a container of `image`, with its parameters in environment variables."""

    command: str
    image: str
    clients: int = 1
    seconds: int = TRY_SECONDS
    rate: float = 0

    def prepare(self, lab: Lab) -> None:
        """Start the container for the command."""
        lab.run_beside("load", SERVICE, self.image)

    def try_out(self, lab: Lab) -> None:
        """Run the command for a second with one client; LabError for an invalid line or an ignored rate."""
        tried = replace(self, rate=TRY_RATE if self.rate else 0)
        lines = lines_of(tried._printed(lab, 1))
        if tried.rate and (doubt := even(lines, tried.rate, tried.clients).doubt):
            raise LabError(
                f"the load command does not keep a rate: {doubt}",
                "with LAB_RATE, evenly spaced starts",
                "leave out --rate, or read docs/asking.md, section A command of your own",
            )

    def run(self, lab: Lab, seed: int) -> Timed:
        """Run the command; LabError when it fails or prints an invalid line."""
        lines = lines_of(self._printed(lab, seed))
        good = [line for line in lines if line.ok]
        commits = [line.duration / 1000 for line in good if line.writes]
        achieved = len(lines) / self.seconds
        return Timed(
            commits=len(commits),
            throughput=len(good) / (self.seconds if self.rate else seconds_of(lines)),
            latencies_ms=[line.duration / 1000 for line in good],
            # Failed transactions count only here.
            lost=len(lines) - len(good),
            moments=moments_of(lines),
            # With a rate, latencies include waiting.
            fastest_commit_ms=None if self.rate else min(commits, default=None),
            rates=rates(self.rate, achieved) if self.rate else {},
            proofs=[kept(self.rate, achieved), even(lines, self.rate, self.clients)]
            if self.rate
            else [lasted(lines, self.seconds)],
        )

    def _printed(self, lab: Lab, seed: int) -> str:
        user, password = lab.application(lab.topology.source.name)
        known = {
            "HOST": lab.written_host,
            "PORT": PORT,
            "USER": user,
            "PASSWORD": password,
            "DATABASE": "lab",
            "CLIENTS": self.clients,
            "SECONDS": self.seconds,
            "SEED": seed,
            "RATE": f"{self.rate:.10g}" if self.rate else "",
        }
        limit = str(self.seconds + MORE_SECONDS)
        return lab.service(SERVICE).run(
            *("timeout", limit, "sh", "-c", self.command),
            environment={f"LAB_{name}": str(value) for name, value in known.items()},
        )
