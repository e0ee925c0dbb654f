"""A case of an experiment: one setting of its variable, and the lab that it is measured on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replication_lab.model.experiment.lab_spec import LabSpec
from replication_lab.model.lab.toxic import Toxic
from replication_lab.model.question.case_state import CaseState


@dataclass(frozen=True)
class Case:
    """One setting of the experiment's variable; `needs` are the engine features that it requires.

    `links` is the toxic or condition on every link of the topology (`lan`, `85ms`, `100mbit`), or that of each link by
    its name. `settings` are those of `lab ask`: `clients`, `replication`, `wait_point`, `protocol`, and variables of
    the servers. An experiment that arranges its cases itself may have others.
    `lab` is the lab that it is measured on; if None, a lab of the experiment's topology. `compared` are the figures by
    which it is compared with another run or server (compared_figures.py); if None, those of the experiment. `toxics`
    are on its links, by the links' names, during a load. `state` is what `lab ask` sets besides; both follow from
    `links` and `settings`, unless an experiment arranges its cases itself.
    """

    name: str
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    needs: frozenset[str] = frozenset()
    lab: LabSpec | None = None
    compared: tuple[str, ...] | None = None
    toxics: Mapping[str, Toxic] = field(default_factory=dict)
    state: CaseState = field(default_factory=CaseState)
    links: str | Mapping[str, str] = ""

    @property
    def added_ms(self) -> float:
        """The shortest round trip in ms that the toxics add to a link; 0 without toxics."""
        return min((toxic.shortest_trip_ms for toxic in self.toxics.values()), default=0)
