"""The binary log of one server: its end, and the transactions in it."""

from dataclasses import dataclass
from typing import Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.mysql_errors import SYNTAX_ERROR, code_of
from replication_lab.world.mysql import gtid
from replication_lab.world.mysql.server import Server


@dataclass(frozen=True)
class BinaryLog:
    """A server's own log, which its replicas read."""

    server: Server

    def position(self) -> dict[str, Any]:
        """Return the end of this server's own binary log: {position} with GTIDs, {file, place} without."""
        row = self.server.rows(self.server.dialect.position)[0]
        if "File" in row:
            return {"file": row["File"], "place": row["Position"]}
        return {"position": next(iter(row.values())).replace("\n", "")}

    def end(self) -> tuple[str, int]:
        """Return the end of this server's own binary log: (file, place)."""
        row = self.server.rows("SHOW BINARY LOGS")[-1]
        return row["Log_name"], int(row["File_size"])

    def gtids(self) -> str:
        """Return the transactions in this server's binary log, its own and those that it applied."""
        return str(self.server.value(self.server.dialect.gtids) or "")

    def transactions(self) -> int:
        """Return the number of transactions that this server has committed or applied, by their GTIDs."""
        return gtid.transactions_in(self.server.value(self.server.dialect.transactions) or "")

    def reset_gtids_to(self, gtids: str) -> None:
        """Reset the binary log to these GTIDs, the state of the server that this server's data were copied from."""
        self.reset()
        self.server.execute(*(statement.format(gtids=gtids) for statement in self.server.dialect.reset_gtids_to))

    def reset(self) -> None:
        """Delete the binary log, and forget its GTIDs."""
        for number, statement in enumerate(self.server.dialect.reset, 1):
            try:
                self.server.execute(statement)
                break
            except LabError as error:
                # Versions spell it differently. After a syntax error nothing was done, so the other spelling is safe.
                if number == len(self.server.dialect.reset) or code_of(error.__cause__) != SYNTAX_ERROR:
                    raise
