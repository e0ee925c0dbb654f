"""A proved link: the address of a container's port across a network condition, which is measured and observed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress

from replication_lab.faults.condition import LinkCondition, toxic_of
from replication_lab.faults.cut import Cut
from replication_lab.faults.fault import Fault, proofs_of, proofs_of_recovery
from replication_lab.model.core.errors import LabError, Unproved
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.toxic import PACKET_KINDS, PACKET_LOSS, Toxic
from replication_lab.testcontainers import lab as labs
from replication_lab.testcontainers.lab import LINK, ContainerLab, Given, target_of
from replication_lab.witnesses.acts import LinkWitness
from replication_lab.world import clock, signals
from replication_lab.world.docker import engine
from replication_lab.world.docker.service import stays_open
from replication_lab.world.packets import packet_ability

# pytest leaves the functions of this module out of what it shows of a failure.
__tracebackhide__ = True


class ProvedLink:
    """A link whose condition is proved.

    `host` and `port` are its address for programs on this machine, `inside` its address for containers in the network
    of the server. `proofs` is what was seen so far. Each method gives it another condition for a `with` block, proves
    that at the beginning and at the end, and proves that the first condition is back.
    """

    def __init__(self, lab: ContainerLab, proofs: list[Proof]):
        self._lab, self.proofs = lab, proofs
        self.host, self.port = lab.address()
        self.inside = lab.inside()
        self._not_theirs = lab.crossed()
        # Connections that a cut refuses are not counted.
        self.was_cut = False

    @property
    def crossed(self) -> int:
        """How many connections of the user's programs the link has accepted so far."""
        return self._lab.crossed() - self._not_theirs

    def slow(self, round_trip: str) -> AbstractContextManager[None]:
        """Give it this round trip: `200ms`, or `40ms±5ms` with jitter."""
        return self.condition(round_trip)

    def rate(self, rate: str) -> AbstractContextManager[None]:
        """Limit all of its connections together, in each direction: `1mbit`."""
        return self.condition(rate)

    def black_hole(self) -> AbstractContextManager[None]:
        """Let connections stay open, and no data arrive."""
        return self.condition("black-hole")

    def reset(self) -> AbstractContextManager[None]:
        """End each connection by a TCP reset at its first byte."""
        return self.condition("reset")

    @contextmanager
    def condition(self, text: str) -> Iterator[None]:
        """Give it the condition of a text such as `40ms+20mbit`, or of a file of `toxics/` by its name."""
        toxic = toxic_of(text)
        _refuse_unable(toxic, self._lab)
        with self._acting(_condition(self._lab, toxic)):
            yield

    @contextmanager
    def cut(self) -> Iterator[None]:
        """End its connections, and refuse new ones."""
        self.was_cut = True
        with self._acting(Cut(self._lab, [LINK])):
            yield

    @contextmanager
    def _acting(self, fault: Fault) -> Iterator[None]:
        with closing(fault):
            try:
                fault.inject()
                self.proofs += _proved(proofs_of, fault)
                yield
                self.proofs += _proved(proofs_of, fault)
            except BaseException:
                # The test's own error counts. What is not recovered is noticed at the end of the link.
                with suppress(LabError):
                    fault.recover()
                raise
            fault.recover()
            self.proofs += _proved(proofs_of_recovery, fault)


@contextmanager
def proved_link(container: Given, port: int, condition: str = "none", *, service: str = "") -> Iterator[ProvedLink]:
    """Yield a link to a port of a container that Testcontainers started, with this condition for the whole block.

    `container` is a DockerContainer such as MySqlContainer, or a DockerCompose, of which `service` names the service.
    Raise Unproved if the condition was not seen at the beginning or at the end, if another program changed the link
    meanwhile, or if no connection crossed it; LabError if there can be no link.
    """
    toxic = toxic_of(condition)
    engine.ensure()
    target = target_of(container, port, service)
    lab = labs.start(target)
    try:
        _refuse_unable(toxic, lab)
        if not lab.account and not stays_open(lab.address()):
            raise LabError(
                f"nothing accepts connections at port {port} of {target.name}",
                "the port of a server in the container, as it is inside, and a container that is ready",
                f"docker logs {target.name}",
            )
        with closing(LinkWitness(lab)) as witness, closing(_condition(lab, toxic, calibrate=True)) as fault:
            fault.inject()
            link, began = ProvedLink(lab, _proved(proofs_of, fault)), clock.timer()
            yield link
            link.proofs += _proved(proofs_of, fault)
            if seen := witness.observation(began).contrary:
                raise Unproved(
                    f"another program changed the link {seen[0].at:g} s after the beginning: {seen[0].what}",
                    witness.obligation,
                    "run the test while no other program changes its link",
                )
        if not link.crossed and not link.was_cut:
            raise Unproved(
                f"no connection crossed the link to {target.name}: what this block did went another way",
                "connections to link.host and link.port",
                f"let what is tested connect to {link.host}:{link.port}",
            )
    finally:
        with signals.signals_held():
            lab.down()


def _condition(lab: ContainerLab, toxic: Toxic, calibrate: bool = False) -> LinkCondition:
    made = LinkCondition(lab, [LINK], toxic, calibrate=calibrate)
    made.in_use = True
    return made


def _refuse_unable(toxic: Toxic, lab: ContainerLab) -> None:
    """Refuse effects on packets that cannot be made here, or would be measured beside the user's connections."""
    others = [PACKET_KINDS[body.type] for body in toxic.of_packets if body.type != PACKET_LOSS]
    if others and not lab.account:
        raise LabError(
            f"{toxic.name}: {others[0]} cannot be measured at a server that takes no SQL from the lab",
            "loss, a round trip, a rate or a named condition without it",
            "./lab toxic",
        )
    packet_ability.refuse_unable([(LINK, toxic)], [lab.topology])


def _proved(proofs: Callable[[Fault], list[Proof]], fault: Fault) -> list[Proof]:
    """Return the proofs of a fault; Unproved if one of them failed, or the link does not answer the lab any more."""
    try:
        found = proofs(fault)
    except LabError as error:
        raise Unproved(f"the link cannot be measured: {error.found}", error.expected, "./lab doctor") from error
    for proof in found:
        if not proof.ok:
            raise Unproved(f"{proof.what}: {proof.found}", proof.expected, "./lab doctor")
    return found
