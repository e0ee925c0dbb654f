"""Links whose toxics are changed; recovery puts back exactly what was there."""

from collections.abc import Sequence

from replication_lab.faults._links import OnLinks
from replication_lab.faults.toxic_calibration import exchange
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.toxic import ToxicBody
from replication_lab.world.docker.lab import Lab


class ReplacedToxics(OnLinks):
    """The links, with the toxics and round trips that they had when this was made."""

    def __init__(self, lab: Lab, links: Sequence[str]):
        super().__init__(lab, links)
        self._had = {name: link.toxics() for name, link in self.running.items()}

    def recover(self) -> None:
        self.each(lambda name: exchange(self.running[name], self._had[name]))

    def verify_recovered(self) -> list[Proof]:
        return [*(self._same_toxics(name) for name in self.running), *super().verify_recovered()]

    def _same_toxics(self, name: str) -> Proof:
        had, has = (_said(found) for found in (self._had[name], self.running[name].toxics()))
        return Proof(what=f"toxics of {name}", expected=had, found=has, ok=had == has)


def _said(toxics: Sequence[ToxicBody]) -> str:
    return ", ".join(sorted(_said_of(each) for each in toxics)) or "none"


def _said_of(toxic: ToxicBody) -> str:
    return " ".join([toxic.name, *(f"{name}={value}" for name, value in sorted(toxic.attributes.items()))])
