"""What is shown, recorded as a run of its own: samples, explanations, what viewers did, and the ledger's statements."""

from pathlib import Path

from replication_lab.live.tally import LoadTally, nowhere
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.event import End
from replication_lab.model.live.view import Acted, Live, Second, Span, ViewedState
from replication_lab.world import clock, host
from replication_lab.world.docker.lab import Lab
from replication_lab.world.files import LineByLine
from replication_lab.world.journal import Journal, ledger


class Recorder:
    """A record that can be begun and ended while the lab is viewed; one at a time."""

    def __init__(self, lab: Lab, tally: LoadTally):
        self._lab, self._tally = lab, tally
        self._journal: Journal | None = None
        self._ledger: LineByLine | None = None

    @property
    def folder(self) -> Path | None:
        return self._journal.folder if self._journal else None

    def begin(self, at: float, clients: int, rate: float) -> Path:
        """Begin a record and return its folder; LabError if one is being written."""
        if self._journal is not None:
            raise LabError(f"{self._journal.folder.name} is being recorded", "one record at a time")
        journal = Journal(f"live-{self._lab.topology.name}")
        journal.write(
            Live(
                lab=self._lab.name,
                topology=self._lab.topology.name,
                engines=[self._lab.engine],
                seed=0,
                started=clock.now(),
                environment=dict(host.describe()),
                clients=clients,
                rate=rate,
                began=at,
            )
        )
        self._ledger = LineByLine(ledger(journal.folder, "live"))
        self._tally.also = self._ledger.write
        self._journal = journal
        return journal.folder

    def note(self, state: ViewedState) -> None:
        """Record one second, if a record is being written."""
        if self._journal is not None:
            self._journal.write(Second(sample=state.sample, ledger=state.ledger, explain=state.explain))

    def end(self, spans: list[Span]) -> Path | None:
        """End the record and return its folder; None if there is none."""
        journal, self._journal = self._journal, None
        if journal is None:
            return None
        self._tally.also = nowhere
        journal.write(Acted(spans=spans))
        journal.write(End(why="done"))
        journal.close()
        if self._ledger is not None:
            self._ledger.close()
        return journal.folder
