"""Whether packets of full size cross the networks between the sites of a lab: a ping fits into every packet.

A tunnel or an overlay carries less than 1500 bytes. If it drops what is larger without an answer, connections are made
and pings come back, but a long row never arrives.
"""

from collections.abc import Iterable

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.world import at_once
from replication_lab.world.packets.link import RunningLink

# More than any packet: TCP fills packets to the size that both ends announce. 3 s are many round trips.
BYTES, ANSWER_SECONDS = 1 << 16, 3


def prove(links: Iterable[RunningLink]) -> list[Proof]:
    """Prove those of these links that are between two sites, each by a long answer and a long question.

    LabError if not even the first bytes of a far end arrive, or its server answers with an error.
    """
    return at_once.of_each(_prove, [link for link in links if link.crosses_sites])


def refusal(links: Iterable[RunningLink]) -> LabError | None:
    """Return the error for a link that drops packets of full size; None if there is no such link."""
    failed = next((proof for proof in prove(links) if not proof.ok), None)
    if failed is None:
        return None
    return LabError(
        f"{failed.what}: {failed.found}",
        failed.expected,
        "ping -M do -s 1472 ADDRESS, from each site to the others; then set one MTU for that network",
    )


def _prove(link: RunningLink) -> Proof:
    if not link.greets(ANSWER_SECONDS):
        raise LabError(f"link {link.name} does not answer", "a greeting of its far end", "./lab status")
    server, dialler = link.model.server, link.model.dialler
    ways = {f"from {server} to {dialler}": False, f"from {dialler} to {server}": True}
    size = f"{BYTES >> 10} KiB"
    lost = [way for way, is_question in ways.items() if not link.passes(BYTES, ANSWER_SECONDS, is_question=is_question)]
    return Proof(
        what=f"packets of full size cross link {link.name}",
        found=f"short ones arrive, {size} {' and '.join(lost)} do not" if lost else f"{size} arrived both ways",
        expected="a network between the sites that drops no packet for its size",
        ok=not lost,
    )
