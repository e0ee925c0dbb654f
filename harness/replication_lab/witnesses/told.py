"""A witness by a program in a container that tells each change as it happens; it is asked again and again for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replication_lab.witnesses.sampled import Sampled
from replication_lab.world import clock
from replication_lab.world.docker.conversation import Conversation
from replication_lab.world.docker.lab import Lab
from replication_lab.world.requests_made import OwnRequest, made

# The first answer of a shell with these arguments is all that the program has told, each later one what it told since.
# The shell ends with its program, and both end with the conversation.
TELLS = """
exec 3< <(exec "$@")
teller=$!
while read -r _ && kill -0 $teller; do
    echo since the last question:
    while read -r -t 0 -u 3 && IFS= read -r -u 3 line; do echo "$line"; done
    echo
done
kill $teller
"""
# By how much a program may tell a change later than it was made: a machine's only CPU may be busy.
LATE_SECONDS = 1.0
# How long a container that the lab has started makes its rules, and a machine brings its disk up.
STARTS, START_SECONDS = ("start", "restart"), 60


def told_by(
    obligation: str, lab: Lab, readings: Mapping[str, "Changes"], command: Callable[[str], list[str]]
) -> Sampled[Conversation]:
    """Return the witness of these services; `command` returns what tells the changes of each of them.

    One that runs and does not answer leaves a gap: it may change meanwhile. One that the lab stops, freezes or starts
    need not answer.
    """

    def reach(of: Lab, service: str) -> Conversation:
        found = of.service(service)
        return Conversation(found.name, "exec", "-i", str(found.container.id), *command(service), site=found.site)

    def runs(of: Lab, service: str) -> bool:
        since = clock.timer() - START_SECONDS
        changed = {one.what for one in made() if one.began > since}
        found = of.containers.get(service)
        return found is not None and str(found.id) not in changed and of.service(service).state()[0] == "running"

    return Sampled(obligation, lab, readings, reach, runs)


@dataclass
class Changes:
    """What is told of one service, unless this process has just asked for a change that may be its cause.

    `changes` returns what lines tell, in words; `explains` whether a request of this process may cause it. A start of
    its own `container` does so for a while.
    """

    changes: Callable[[list[str]], list[str]]
    explains: Callable[[OwnRequest], bool]
    container: str
    _last: float = field(default_factory=clock.timer)

    def __call__(self, asked: Conversation) -> list[str]:
        since, lines = self._last, asked.ask().splitlines()
        self._last = clock.timer()
        found = self.changes(lines)
        return found if found and not self._is_own(since, self._last) else []

    def _is_own(self, since: float, now: float) -> bool:
        starts = [one for one in made() if one.kind in STARTS and one.what == self.container]
        return any(one.began > now - START_SECONDS for one in starts) or any(
            one.overlaps(since - LATE_SECONDS, now) for one in made() if self.explains(one)
        )
