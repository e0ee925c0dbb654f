"""A server of the fake world."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from replication_lab.model.core.errors import LabError
from replication_lab.model.core.given_file import GivenFile
from replication_lab.model.core.variable import is_same, literal
from replication_lab.model.lab.option_file import options_of
from replication_lab.model.lab.server_version import parse_version
from replication_lab.workloads.ledger import TABLE
from replication_lab.world import catalogue
from replication_lab.world.mysql.dialects import Dialect, dialects
from replication_lab.world.mysql.semisync import SemiSyncStatus
from replication_lab.world.mysql.server import NotKept

from tests.fakes.session import SUMMED, FakeLedgerClient, FakeSession

if TYPE_CHECKING:
    from tests.fakes.lab import FakeLab

HISTORY = "0b1f5a3e-fake"
FILLED = re.compile(r"REPLACE INTO (\S+) VALUES (.*)")
DIALLED = re.compile(r"CHANGE .* TO \w+_HOST='(.*)', \w+_PORT=(\d+)")
SET = re.compile(r"SET GLOBAL (\w+) = '?(\w+)'?")
READ = re.compile(r"SELECT @@GLOBAL\.(\w+)")
CHANGED = re.compile(r"SET GLOBAL (\w+) = ")
OPTION = re.compile(r"^(loose-)?([\w-]+) ?= ?(\w+)", re.M)
# Those that need a restart; some variables, and the most that a server takes of one: it silently makes that of more.
FIXED = {"innodb_page_cleaners": "4", "innodb_read_io_threads": "4"}
VARIABLES = {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1", "innodb_io_capacity": "200"} | FIXED
# Galera's options are variables, too: evs.send_window is wsrep_provider_evs_send_window.
PROVIDER = "wsrep_provider_"
MOST = {"innodb_flush_log_at_trx_commit": 2, "innodb_read_io_threads": 64}

Rows = list[dict[str, Any]]


@dataclass
class FakeServer:
    """A node: it understands the statements of its dialect, and is the state that they would leave."""

    name: str
    lab: "FakeLab"
    semisync: SemiSyncStatus
    dials: tuple[str, int] | None
    runs: bool = True
    differs: bool = False
    left: bool = False
    # Commits since the start, beside those of `semisync`: replacing that at every commit takes as long as a commit.
    acknowledged: int = 0
    unacknowledged: int = 0
    globals_: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        says = self.dialect
        self._answers: dict[str, Callable[[], Rows]] = {
            says.replica_status: self._replica,
            f"SHOW GLOBAL STATUS LIKE '{says.semisync_source}": self._semisync_status,
            f"SHOW GLOBAL VARIABLES LIKE '{says.semisync_source}": self._semisync_variables,
            "SHOW GLOBAL STATUS LIKE 'wsrep": self._galera,
            says.followers: self._followers,
            "SELECT SUM(DATA_LENGTH)": lambda: [{"bytes": 0}],
            "SHOW TABLES FROM lab LIKE": list,
            "SHOW BINARY LOGS": lambda: [{"Log_name": "bin.1", "File_size": 0}],
            "SELECT * FROM information_schema.PROCESSLIST": list,
            "SHOW PROCESSLIST": list,
            "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'": lambda: [{"Value": "0"}],
            "SHOW GLOBAL VARIABLES": lambda: [{"Variable_name": name} for name in VARIABLES],
            # Every row is everywhere at once.
            "SELECT COUNT(*) FROM": lambda: [{"count": 0}],
            f"SELECT id FROM {TABLE} WHERE": lambda: [{"id": number} for number in self.lab.ledger],
            "EXPLAIN": lambda: [self.lab.grouping.plan],
            "SELECT GTID_SUBSET": lambda: [{"all": 1}],
            # Where a dialect asks both in the same words, the number of transactions will do for a position.
            **({says.transactions: self._transactions} if says.transactions else {}),
            **({says.channels: self._replica} if says.channels else {}),
            says.position: lambda: [{"position": "0-1-1"}] if says.gtids else [{"File": "bin.1", "Position": 0}],
            says.wait_for_position.partition("(")[0]: self._level,
        }
        self._orders: dict[str, Callable[[], None]] = {
            says.start: self._start,
            says.stop: self._stop,
            says.stop_applier: self._stop_applier,
        }

    @property
    def address(self) -> tuple[str, int]:
        return self.name, 3306

    @property
    def dialect(self) -> Dialect:
        return dialects()[catalogue.engines()[self.lab.engine].dialect]

    def another(self) -> "FakeServer":
        """Return itself: it has no connection that one statement could keep from another."""
        return self

    def as_application(self) -> "FakeServer":
        return self

    def connect(self, database: str = "lab", answer_seconds: float = 60) -> FakeLedgerClient:
        return FakeLedgerClient(self.lab, self.name)

    def version(self) -> str:
        known = catalogue.engines()[self.lab.engine]
        family = "MariaDB-" if self.dialect.family == "mariadb" else ""
        return f"{known.version}{'.0' * (2 - known.version.count('.'))}-{family}fake"

    def settings(self, *names: str) -> dict[str, str]:
        known = self.globals_ | {f"{PROVIDER}options": self._provider_options()}
        return {name: known[name] for name in names if name in known}

    def _provider_options(self) -> str:
        options = {name.removeprefix(PROVIDER): value for name, value in self.globals_.items() if PROVIDER in name}
        return "".join(f"{name.replace('_', '.', 1)} = {value}; " for name, value in options.items())

    def changed_settings(self) -> dict[str, str]:
        return {"sync_binlog": "0", "datadir": "/var/lib/mysql/"}

    def set_global(self, **settings: str | int) -> None:
        for name, value in settings.items():
            self.execute(f"SET GLOBAL {name} = {literal(str(value))}")
            if name not in VARIABLES:
                self.globals_[name] = str(value)
            elif not is_same(str(value), found := self.globals_[name]):
                raise NotKept(
                    f"{self.name} changed {name}={value} to {found}", "a value that the server keeps unchanged"
                )

    def counters(self, *names: str) -> dict[str, int]:
        redo = self.dialect.redo
        if redo and redo.written in names:
            found = self.lab.race.redo(self.name)
            return {redo.written: found.written, redo.checkpoint: found.written - found.age}
        return {name: self.lab.grouping.counters[name] for name in names}

    def close(self) -> None:
        pass

    def tables(self, _engine: str = "") -> list[str]:
        return ["`lab`.`foo`"]

    def checksum(self, _table: str) -> int:
        return int(self.differs)

    @contextmanager
    def session(self, answer_seconds: float = 60, database: str = "lab") -> Iterator[FakeSession]:
        session = FakeSession(self.lab, self.name)
        try:
            yield session
        finally:
            session.rollback()

    def rows(self, statement: str) -> Rows:
        """Return the result of a query of the harness; StopIteration for one that the model does not know."""
        if statement == self.dialect.gtids:
            return self._transactions()
        if asked := READ.match(statement):
            return [{"value": self._variable(asked[1])}]
        if summed := SUMMED.match(statement):
            return [{"sum": self.lab.rows.sum(summed[1]) + self.differs}]
        return next(answer for words, answer in self._answers.items() if statement.startswith(words))()

    def value(self, statement: str) -> Any:
        return next(iter(self.rows(statement)[0].values()))

    def execute(self, *statements: str) -> None:
        for statement in statements:
            if statement in self._orders:
                self._orders[statement]()
            elif statement.startswith("INSERT"):
                # Parts of a second that add up without a remainder.
                self.lab.clock.pause(math.ceil(self.lab.commit().answered / 1000 * 2**20) / 2**20)
            elif filled := FILLED.match(statement):
                self.lab.rows.fill(*filled.groups())
            elif dialled := DIALLED.match(statement):
                self.dials = (dialled[1], int(dialled[2]))
            elif (changed := CHANGED.match(statement)) and changed[1] in FIXED:
                raise LabError(f"`{statement}` on {self.name} failed") from LookupError(1238, "is a read only variable")
            elif setting := SET.match(statement):
                self._set(setting[1], setting[2])

    def start_with(self, text: str) -> str:
        """Act as a server that is started with a my.cnf file; return its log."""
        self.globals_ = {name: value for name, value in self.globals_.items() if name not in VARIABLES}
        version = parse_version(self.version())
        read = {each.name: each.value for each in options_of(GivenFile("", text), version)} if text else {}
        for loose, option, value in OPTION.findall(text):
            name = option.replace("-", "_")
            if read.get(name) != value:
                continue
            if name not in VARIABLES and not loose:
                return f"[ERROR] unknown variable '{name}={value}'\n[ERROR] Aborting"
            self._set(name, value)
        return ""

    def _start(self) -> None:
        self.runs = True
        self.lab.race.applying[self.name] = self.name not in self.lab.race.broken

    def _stop(self) -> None:
        self.runs = False
        self._stop_applier()

    def _stop_applier(self) -> None:
        self.lab.race.applying[self.name] = False

    def _level(self) -> Rows:
        self.lab.race.level(self.name)
        return [{"answer": 0}]

    def _transactions(self) -> Rows:
        return [{"gtids": f"0-1-{self.lab.race.transactions(self.name)}"}]

    def _replica(self) -> Rows:
        if self.dials is None:
            return []
        column, state = self.dialect.columns, "Yes" if self.runs else "No"
        places = {column.received_file: "bin.1", column.received_place: 0}
        places |= {column.applied_file: "bin.1", column.applied_place: 0}
        gtids = {"Retrieved_Gtid_Set": "", "Executed_Gtid_Set": ""}
        threads = {column.io: state, column.sql: state, column.io_error: "", column.sql_error: "", column.lag: 0}
        return [{column.host: self.dials[0], column.port: self.dials[1], **threads, **places, **gtids}]

    def _variable(self, name: str) -> str:
        if name not in {**VARIABLES, **self.globals_}:
            unknown = f"{self.name}: Unknown system variable '{name}'"
            raise LabError(unknown, "a statement that succeeds") from LookupError(1193, unknown)
        return self.globals_.get(name, VARIABLES.get(name, ""))

    def _set(self, name: str, value: str) -> None:
        if name in VARIABLES:
            self.globals_[name] = str(min(int(value), MOST.get(name, int(value))))
        self._set_semisync(name.removeprefix(f"{self.dialect.semisync_source}_"), value)

    def _set_semisync(self, name: str, value: str) -> None:
        if name == "enabled":
            self.semisync = replace(self.semisync, enabled=value == "1", active=value == "1")
        elif name == "wait_point":
            self.semisync = replace(self.semisync, wait_point=value)
        elif name == "timeout":
            self.semisync = replace(self.semisync, timeout_ms=int(value))

    def fall_back(self) -> None:
        """Act as a source whose timeout passed without an acknowledgement."""
        self.semisync = replace(self.semisync, active=False, fallbacks=self.semisync.fallbacks + 1)

    def _semisync_status(self) -> Rows:
        state = self.semisync
        return self._named(
            status="ON" if state.active else "OFF",
            clients=state.replicas,
            yes_tx=state.acknowledged + self.acknowledged,
            no_tx=state.unacknowledged + self.unacknowledged,
            no_times=state.fallbacks,
        )

    def _semisync_variables(self) -> Rows:
        state = self.semisync
        choice = {"wait_point": state.wait_point} if state.wait_point else {}
        count = self.dialect.semisync_count
        waits_for = [{"Variable_name": count, "Value": self.globals_.get(count, "1")}] if count else []
        return [*self._named(enabled="ON" if state.enabled else "OFF", timeout=state.timeout_ms, **choice), *waits_for]

    def _followers(self) -> Rows:
        """Return the replicas that are connected; each of the fake world's follows the same source."""
        others = [self.lab.node(node.name).server() for node in self.lab.topology.replicas]
        return [{"Server_id": number} for number, each in enumerate(others, 2) if each.dials and each.runs]

    def _named(self, **values: str | int) -> Rows:
        prefix = self.dialect.semisync_source
        return [{"Variable_name": f"{prefix}_{name}", "Value": str(value)} for name, value in values.items()]

    def _galera(self) -> Rows:
        group, lab = self.lab.group, self.lab
        # A lost conflict is counted at the node where it lost; which one that was makes no difference to the sum.
        lost = group.conflicts if self.name == lab.topology.source.name else 0
        size = 1 if self.left else len(lab.topology.nodes) - sum(server.left for server in lab.servers.values())
        status = {
            "ready": "OFF" if self.left else "ON",
            "local_state_comment": "Initialized" if self.left else "Synced",
            "cluster_status": "non-Primary" if self.left else "Primary",
            "cluster_size": size,
            "cluster_conf_id": group.view,
            "cluster_state_uuid": HISTORY,
            "last_committed": group.last_committed,
            "local_cert_failures": lost,
            "local_bf_aborts": lost,
            "flow_control_paused_ns": round(group.paused_ms * 1e6),
            "flow_control_sent": 0,
            "local_recv_queue": 0,
            "local_send_queue": 0,
            "evs_repl_latency": "0/0/0/0/0",
            "incoming_addresses": "",
        }
        return [{"Variable_name": f"wsrep_{name}", "Value": str(value)} for name, value in status.items()]
