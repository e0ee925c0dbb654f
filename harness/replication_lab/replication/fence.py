"""The fence of a failover: make the old source refuse writes within seconds, even if it is frozen or commits wait."""

from contextlib import closing, suppress
from dataclasses import dataclass, field

from replication_lab.model.core.errors import LabError
from replication_lab.world import clock
from replication_lab.world.docker.lab import Lab

# Every engine's server reads this at each start: an old source must not accept writes again by itself.
FENCES = ("/etc/mysql/conf.d/fenced.cnf", "/etc/my.cnf.d/fenced.cnf")
FENCE = b"# Written by lab failover: another server is the source now.\n[mysqld]\nread_only = 1\n"
# Options that override those of the Compose file (images/database), so that a failover outlasts a restart.
ROLE = "/etc/mysql/role"
# What the role of a promoted node says, and that of any other: an option of the command line overrides each file.
WRITABLE, READ_ONLY = "--read-only=0", "--read-only=1"
# `SET GLOBAL read_only` waits for commits. The server gives up after LOCK_SECONDS; if it is frozen or slow, the lab
# does, ANSWER_SECONDS after it began to connect.
LOCK_SECONDS, ANSWER_SECONDS = 1, 2
# How long to wait for a killed server to answer again: its transactions are compared with those of the new source.
RESTART_SECONDS = 60


@dataclass
class Fence:
    """The old source of a failover; `said` describes how it was made to refuse writes."""

    lab: Lab
    node: str
    said: str = ""
    # What `undo` restores.
    _files: dict[str, bytes] = field(default_factory=dict)
    _took_writes: bool = False

    def close(self) -> str:
        """Make the server refuse writes, now and after each start; return an empty string if it does.

        Otherwise return the reason: commits wait for an acknowledgement or a lock, or the server is frozen. Then it may
        still accept writes, and the caller calls `restart`, or `undo` to give up.
        """
        node = self.lab.node(self.node)
        # Whether it accepts writes when it starts, by its files, because it may be frozen.
        role = node.text_of(ROLE)
        self._took_writes = WRITABLE in role if role else self.lab.topology.node(self.node).role == "source"
        of_role = {ROLE: role.replace(WRITABLE, READ_ONLY).encode()} if role else {}
        for path, content in {**dict.fromkeys(FENCES, FENCE), **of_role}.items():
            with suppress(LabError):
                self._files[path] = node.text_of(path).encode()
                node.put(path, content)
        status, _ = node.state()
        if status not in ("running", "paused"):
            self.said = f"{self.node} does not run; it starts as read-only"
            return ""
        why = "was frozen" if status == "paused" else self._refused()
        if not why:
            self.said = f"{self.node} is read-only"
        return why

    def _refused(self) -> str:
        """Set the server to read-only; return why it could not be, or an empty string."""
        with closing(self.lab.node(self.node).server().within(ANSWER_SECONDS)) as server:
            try:
                self._took_writes = server.settings("read_only") == {"read_only": "OFF"}
                server.execute(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
            except LabError:
                return "did not answer"
            try:
                server.set_global(read_only=1)
            except LabError:
                return "had commits or locks that waited"
        return ""

    def restart(self, why: str) -> None:
        """Kill the server and start it again as read-only.

        A killed server confirms no commit. A shorter timeout, or switching the wait off, would confirm commits that no
        replica has. KILL does not help either: on MySQL a session that waits for an acknowledgement continues to wait.
        """
        node = self.lab.node(self.node)
        node.kill()
        self.said = f"{self.node} {why}: it was killed and starts again as read-only"
        try:
            try:
                clock.wait_until(lambda: node.state()[0] == "exited", f"the end of {self.node}", RESTART_SECONDS)
            finally:
                node.start_again()
            clock.wait_until(self.lab.node(self.node).answers, f"{self.node} to answer", RESTART_SECONDS, every=0.1)
        except LabError as error:
            what = f"it was killed, and does not serve again ({error.found}); when it starts, it is read-only"
            self.said = f"{self.node} {why}: {what}"

    def undo(self) -> None:
        """Let the server accept writes again, if it did before."""
        for path, content in self._files.items():
            self.lab.node(self.node).put(path, content)
        if self._took_writes:
            with suppress(LabError):
                self.lab.node(self.node).server().within(ANSWER_SECONDS).set_global(read_only=0)
