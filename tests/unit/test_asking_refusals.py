"""Is each mistake in the options of `lab ask` refused in one error, before Docker is asked for anything?"""

import gzip
import shlex
from typing import Any

import click
import pytest
from replication_lab import cli
from replication_lab.runner import world

# Files that the mistakes below name, and what is in them.
FILES = {
    "binary.sql": b"\xff\x00\x00",
    "client.cnf": b"[client]\nuser = x\n",
    "empty.cnf": b"",
    "empty.sql": b"",
    "large.sql": b"INSERT INTO t VALUES (1);\n" * 700_000,
    "large.sql.gz": gzip.compress(bytes(17 << 20), 1),
    "load.lua": b"function event() end",
    "load.txt": b"SELECT 1;",
    "my.cnf": b"[mysqld]\nsync_binlog = 1\n",
    "no-group.cnf": b"sync_binlog = 1\n",
    "packed.sql.gz": b"no gzip",
    "port.cnf": b"[mysqld]\nport = 1\n",
    "reads.sql": b"SELECT 1;\n",
    "use.sql": b"USE mysql;\n",
    "writes.sql": b"INSERT INTO t VALUES (1);\n",
}
# What is typed after `lab ask semisync --vary clients=1,2`: what is found, and in the next command or what is expected.
IN_A_QUESTION = [
    ("--output xml", "'xml' is not 'json'", "./lab ask --help"),
    ("--endpoint haproxi", "unknown endpoint 'haproxi'", "haproxy"),
    ("--endpoint haproxy --set endpoint.intre=5", "unknown setting of the endpoint haproxy 'intre'", "inter"),
    ("--set endpoint.inter=5", "endpoint.inter is set without an endpoint", "haproxy"),
    ("--load-sites here,ssh://ops@db2", "--load-sites names another engine", "--load-address 10.1.0.1"),
    ("--load-sites here,,here", "--load-sites has an empty name", "--load-sites here,ssh://ops@db2"),
    ("--load-address 10.1.0.1", "--load-address without --load-sites", "--load-sites here,ssh://ops@db2"),
    ("--manager keepalive", "unknown manager 'keepalive'", "keepalived"),
    ("--set manager.after=5", "manager.after is set without a manager", "keepalived"),
    ("--vary clients=3", "--vary names clients twice", "each setting once"),
    ("--vary sync_binlog", "--vary 'sync_binlog' names no value", "--vary NAME=VALUE"),
    ("--vary sync_binlog=", "--vary 'sync_binlog=' names no value", "--vary NAME=VALUE"),
    ("--vary =0,1", "--vary '=0,1' names no value", "--vary NAME=VALUE"),
    ("--vary sync_binlog=0,,1", "sync_binlog is ''", "without quotes and spaces"),
    ("--vary sync_binlog=0,0", "sync_binlog has a value twice", "values that differ"),
    ("--vary sync_binlog=0,OFF", "sync_binlog has a value twice", "values that differ"),
    ("--vary rtt=0,0ms", "rtt has a value twice", "values that differ"),
    (
        "--vary sync_binlog=0, 1",
        "topologies are named more than once: semisync 1",
        "separated by commas without spaces",
    ),
    ("--vary SYNC_BINLOG=0,1", "'SYNC_BINLOG' is not a setting", "a server's variable"),
    ("--vary nod.sync_binlog=0,1", "semisync has no node 'nod'", "one of source, replica"),
    ("--vary topology=async,semisync", "topology is not a setting", "./lab ask async,semisync"),
    ("--vary replication=sync", "unknown replication 'sync'; did you mean async?", "one of async, none, semisync"),
    ("--vary wait_point=after_sync", "unknown wait_point 'after_sync'", "one of AFTER_COMMIT, AFTER_SYNC"),
    ("--vary protocol=A,C", "semisync has no replicated disk", "./lab ask drbd --vary protocol=A,B,C"),
    ("--vary rtt=,40ms", "unknown toxic ''", "40ms"),
    ("--vary rate=1/s,200/s", "fewer than 10 transactions begin in 3 s", "--duration 10"),
    ("--vary seconds=1,2", "seconds is not a setting", "--duration …"),
    ("--vary workload=a,b", "workload is not a setting", "--workload …"),
    ("--vary source.clients=1,2", "source.clients: clients is not a setting of one node", "--set clients=…"),
    ("--vary sync_binlog=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "the question has 34 cases", "at most 32"),
    ("--vary engine=mariadb,oracle", "unknown engine 'oracle'", "./lab list engines"),
    ("--vary engine=mariadb --vary image=mysql:8.4", "--vary names engines and images", "one of the two"),
    ("--vary engine=mariadb,mysql --engine mysql", "--engine and --vary engine=… both name", "leave out --engine"),
    ("--vary image=mysql:8.4,mysql:8.0 --image mysql:8.4", "--image and --vary engine=…", "leave out --image"),
    ("--vary image=,mysql:8.4", "'' is not the name of an image", "REPOSITORY:TAG"),
    ("--vary cnf=none,missing.cnf", "missing.cnf cannot be read: No such file", "a file"),
    ("--set clients=4", "clients is both varied and set", "leave out --set clients=…"),
    ("--set sync_binlog=1 --set sync_binlog=0", "--set names sync_binlog twice", "each setting once"),
    ("--set sync_binlog", "--set 'sync_binlog' names no value", "--set NAME=VALUE"),
    ("--set rtt=abc", "unknown toxic 'abc'", "./lab toxic"),
    ("--set engine=mysql", "engine is not a setting", "--engine mysql"),
    ("--set image=mysql:8.4", "image is not a setting", "--image …"),
    ("--set sync_binlog=1;", "sync_binlog is '1;'", "a number, ON, OFF or a word"),
    ("--set server_id=3", "server_id cannot be set: the lab gives each node its own number", "other options"),
    ("--set replica.read_only=0", "read_only cannot be set: the node's role determines it", "other options"),
    (
        "--set replication=none --drill lose-source",
        "sets replication=none on semisync, where no drill can be run",
        "./",
    ),
    (
        "--set wait_point=AFTER_COMMIT --drill lose-source-after-sync",
        "sets the wait point AFTER_SYNC itself",
        "--drill",
    ),
    ("--set source.rtt=40ms", "source.rtt: rtt is not a setting of one node", "--set rtt=…"),
    (
        "--set sync_binlog=1 --set source.sync_binlog=0 --set replica.sync_binlog=0",
        "sync_binlog would change nothing: source.sync_binlog, replica.sync_binlog are given as well",
        "leave out sync_binlog",
    ),
    ("--set replication=async --set wait_point=AFTER_SYNC", "has a wait point, but its replication", "leave out wait_"),
    ("--cnf missing.cnf", "missing.cnf cannot be read: No such file", "a file"),
    ("--cnf .", ". cannot be read: Is a directory", "a file"),
    ("--cnf binary.sql", "binary.sql is not text: byte 0, in line 1, is not UTF-8", "a text in UTF-8"),
    ("--cnf client.cnf", "client.cnf has no option; it has [client]", "[mysqld]"),
    ("--cnf port.cnf", "port.cnf line 2: port cannot be set", "other options"),
    ("--cnf empty.cnf", "empty.cnf has no option", "[mysqld]"),
    ("--cnf no-group.cnf", "no-group.cnf line 1: 'sync_binlog = 1' is in no group", "a line [mysqld] before it"),
    ("--cnf my.cnf --cnf my.cnf", "--cnf 'my.cnf' names a node twice", "each node once"),
    ("--cnf my.cnf --set sync_binlog=0", "sync_binlog is set by an option and by my.cnf line 2", "one of the two"),
    ("--cnf nod=my.cnf", "semisync has no node 'nod'", "one of source, replica"),
    ("--rtt abc", "unknown toxic 'abc'", "./lab toxic"),
    ("--rtt 40", "40 has no unit", "ms or s for a round trip"),
    ("--rtt -5ms", "toxic '-5ms' cannot be read", "./lab toxic"),
    ("--rtt ''", "--rtt has an empty value", "leave out --rtt"),
    ("--rtt 10mbit", "rtt is '10mbit', which sets no round trip", "a toxic with a latency"),
    ("--rtt 40ms+2mbit", "rtt is '40ms+2mbit', which is more than a latency", "40ms±5ms"),
    ("--rtt 40ms --set rtt=10ms", "rtt is given as 10ms and as 40ms", "leave out --set rtt=…"),
    ("--rtt 40ms --vary rtt=0,10ms", "rtt is both varied and set", "one of the two"),
    ("--clients 4", "clients is both varied and set", "one of the two"),
    ("--rate 200/d", "rate is '200/d'", "such as 200/s or 12000/min"),
    ("--rate 0/s", "rate is '0/s'", "from 0.001/s"),
    ("--rate 2/s", "fewer than 10 transactions begin in 3 s", "--duration 5"),
    ("--rate 200/s --vary rate=100/s,200/s", "rate is both varied and set", "one of the two"),
    ("--storage raid7", "unknown level of storage 'raid7'", "one of raid0, raid1, single"),
    ("--storage source=raid0:1", "raid0 of 1 disk(s)", "2 to 8 disks"),
    ("--storage nod=raid0", "semisync has no node 'nod'", "one of source, replica"),
    ("--storage source=", "--storage 'source=' names no value", "[NODE=]VALUE"),
    ("--storage none --disk ssd", "disk is ssd, but replica has no emulated disks", "leave out disk"),
    ("--storage raid0 --storage replica=raid1", "storage would change nothing", "leave out storage"),
    ("--disk floppy", "unknown disk 'floppy'", "./lab list disks"),
    ("--disk source=ssd --disk source=sata-7200", "--disk 'source=sata-7200' names a node twice", "each node once"),
    (
        "--disk source=ssd --storage source=none",
        "source.disk is ssd, but source has no emulated disks",
        "a storage level",
    ),
    ("--baseline rtt=40ms", "unknown varied setting in the baseline 'rtt'", "one of clients"),
    ("--baseline clients=3", "unknown value of clients in the baseline '3'", "one of 1, 2"),
    ("--baseline clients", "--baseline 'clients' names no value", "--baseline NAME=VALUE"),
    ("--baseline clients=1 --baseline clients=2", "--baseline names clients twice", "each setting once"),
    ("--claim ''", "the claim '' cannot be read", "QUANTITY[SETTING=VALUE] >= NUMBER"),
    ("--claim 'p50[clients=1] < 3'", "the claim 'p50[clients=1] < 3' cannot be read", "<= NUMBER"),
    ("--claim 'speed[clients=1] >= 3'", "unknown quantity 'speed'", "throughput"),
    ("--claim 'p50[client=1] <= 3'", "unknown varied setting in the claim 'client'", "clients"),
    ("--claim 'p50[clients=3] <= 3'", "unknown value of clients in the claim '3'", "one of 1, 2"),
    ("--claim 'p50[clients=1,clients=2] <= 3'", "names clients twice", "each setting once"),
    ("--claim 'p50[clients=1] <= 3' --claim 'p50[clients=1] <= 3'", "is given twice", "each claim once"),
    ("--claim 'p50[clients=1]/p50[] <= 3'", "sets clients on one side of the ratio only", "on both sides"),
    ("--claim 'lost[clients=1] <= 0'", "lost is measured by a drill, and no drill is given", "--drill lose-source"),
    ("--workload tpcc", "unknown workload 'tpcc'", "FILE.lua or FILE.sql"),
    ("--workload ''", "--workload has an empty value", "leave out --workload"),
    ("--workload missing.sql", "missing.sql cannot be read: No such file", "a file"),
    ("--workload binary.sql", "binary.sql is not text", "a text in UTF-8"),
    ("--workload empty.sql", "empty.sql holds no statement", "read docs/asking.md"),
    ("--workload large.sql", "large.sql has more than 16 MiB", "at most 16 MiB"),
    ("--workload load.txt", "load.txt is neither .sql nor .lua", "--workload load.sql"),
    ("--script-option scale=2", "--script-option with the load inserts", "--workload FILE.lua"),
    ("--script-option scale --workload load.lua", "--script-option 'scale' names no value", "--script-option"),
    ("--case clients=1,rate=20/s", "--case and --vary both name clients", "--vary clients=…"),
    ("--case engine=mariadb,engine=mysql-8.0", "--case names engine twice", "--case engine=…"),
    ("--case engine=mariadb --case cnf=none", "--case names engine and cnf", "--case engine=mysql-5.7"),
    ("--load-command ''", "--load-command has an empty value", "leave out --load-command"),
    ("--load-command ' '", "--load-command is empty", "a command for sh"),
    ("--load-command true --workload load.lua", "both name a load", "one"),
    ("--load-image ours:1", "--load-image ours:1 without --load-command", "--load-command 'CMD'"),
    ("--workload packed.sql.gz", "packed.sql.gz cannot be unpacked", "a file packed by gzip"),
    ("--schema missing.sql", "missing.sql cannot be read: No such file", "a file"),
    ("--schema /dev/zero", "/dev/zero has more than 16 MiB", "at most 16 MiB"),
    ("--schema large.sql.gz", "large.sql.gz has more than 16 MiB", "at most 16 MiB"),
    ("--schema ''", "--schema has an empty value", "leave out --schema"),
    ("--schema use.sql", "uses another database than lab", "without --databases"),
    ("--schema large.sql", "large.sql has more than 16 MiB", "at most 16 MiB"),
    ("--init ''", "--init has an empty value", "leave out --init"),
    ("--init empty.sql", "empty.sql holds no statement", "statements that end with ;"),
    ("--engine oracle", "unknown engine 'oracle'", "./lab list engines"),
    ("--engine ''", "--engine '' names no server", "[NODE=]ENGINE"),
    ("--engine nod=mysql", "unknown node 'nod'", "one of replica, source"),
    ("--engine source=mysql --engine source=mariadb", "--engine 'source=mariadb' names source twice", "each node"),
    ("--image ''", "--image '' names no server", "[NODE=]IMAGE"),
    ("--image 'a b'", "'a b' is not the name of an image", "REPOSITORY:TAG"),
    ("--duration 0", "--duration is '0'", "from 1s to 1h"),
    ("--duration 1500ms", "--duration is 1.5 s", "whole seconds"),
    ("--margin 0", "margin is 0%", "from 0.1% to 100%"),
    ("--margin 200%", "margin is 200%", "--margin 10%"),
    ("--margin nan", "margin is nan%", "--margin 10%"),
    ("--margin small", "--margin 'small' is not a percentage", "--margin 10%"),
    ("--runs 2", "--runs is '2'", "a whole number, from 3 to 100"),
    ("--runs many", "--runs is 'many'", "./lab ask --help"),
    ("--max-duration 2d", "--max-duration is '2d'", "such as 30s, 500ms, 2min or 1h, from 0s to 24h"),
    ("--max-duration long", "--max-duration is 'long'", "./lab ask --help"),
    ("--drill explode", "semisync has no drill explode", "lose-source"),
    ("--drill ''", "--drill has an empty value", "leave out --drill"),
    ("--drill-runs 2", "drill_runs is 2, but no drill is given", "--drill lose-source"),
    ("--drill lose-source --drill-runs 0", "--drill-runs is '0'", "a whole number, from 1 to 50"),
    ("--drill lose-source --drill-runs 99", "--drill-runs is '99'", "a whole number, from 1 to 50"),
    (
        "--drill lose-source --claim 'lost[] / lost[] <= 1'",
        "uses lost in a ratio",
        "a bound on lost or rto, without a ratio",
    ),
    ("--ledger", "--ledger without --drill: no fault could lose a row", "--drill lose-source"),
    ("--ledger --drill lose-source", "--ledger with the load inserts, which is not a .sql file", "--workload FILE.sql"),
    ("--ledger --drill lose-source --workload load.lua", "--ledger with the load load.lua", "--workload FILE.sql"),
    ("--ledger --drill lose-source --workload reads.sql", "no transaction of reads.sql writes", "leave out --ledger"),
    ("--check", "--check with the load inserts, of which the lab does not know", "./lab run isolation"),
    ("--check --workload load.lua", "--check with the load load.lua, of which the lab does not know", "by a key"),
    ("--save missing/question.yaml", "missing/question.yaml cannot be written: No such file", "an existing folder"),
    ("--save .", ". cannot be written: Is a directory", "an existing folder"),
    ("--save my.cnf", "my.cnf exists, and is not a question", "a new file"),
    ("--save ''", "--save has an empty value", "leave out --save"),
    ("--seed -1", "seed is -1", "a whole number from 0 to"),
    ("--seed x", "Invalid value for '--seed': 'x' is not a valid integer", "./lab ask --help"),
    (
        "--clients-from afar",
        "Invalid value for '--clients-from': 'afar' is not one of 'container', 'host'",
        "./lab ask --help",
    ),
    ("--noise loud", "Invalid value for '--noise': 'loud' is not one of 'wait', 'stop', 'accept'", "./lab ask --help"),
    ("--keep=yes", "Option '--keep' does not take a value", "./lab ask --help"),
    ("--json=yes", "Option '--json' does not take a value", "./lab ask --help"),
    ("--help=yes", "Option '--help' does not take a value", "./lab ask --help"),
    ("--vary", "Option '--vary' requires an argument", "./lab ask --help"),
    ("--lab name", "No such option '--lab'", "./lab ask --help"),
]
# The whole of what is typed after `lab ask`.
BY_ITSELF = [
    ("", "no topology is named", "./lab list topologies"),
    ("semisync", "nothing is varied", "./lab ask semisync --vary sync_binlog=0,1"),
    ("semi --vary clients=1,2", "unknown topology 'semi'; did you mean semisync?", "./lab list topologies"),
    ("semisync, --vary clients=1,2", "unknown topology ''", "./lab list topologies"),
    ("semisync,semisync", "topology semisync is named twice", "each topology once"),
    ("semisync async", "topologies are named more than once: semisync async", "./lab ask semisync,async"),
    ("raid --vary clients=1,2", "the replicas of raid are on slow disks and do not keep up", "./lab run raid_replica"),
    ("single --vary clients=1,2 --rtt 40ms", "single has no link, so rtt=40ms would change nothing", "./lab ask"),
    ("single --vary clients=1,2 --disk ssd", "single has no replicas", "--disk server=ssd"),
    ("single --vary clients=1,2 --drill lose-source", "single has no drill lose-source", "./lab drill"),
    (
        "single --vary sync_binlog=0,1 --set server.sync_binlog=1",
        "sync_binlog would change nothing: server.sync_binlog is given as well",
        "leave out sync_binlog",
    ),
    ("async --vary wait_point=AFTER_SYNC,AFTER_COMMIT", "has a wait point, but its replication is async", "semisync"),
    ("async --vary replication=async,semisync", "async are not set up for semi-sync", "./lab ask semisync"),
    ("chain --vary replication=none,async", "chain has no setting replication", "./lab ask semisync"),
    (
        "galera --vary replication=none,async",
        "galera has no setting replication: it is a cluster",
        "./lab ask semisync",
    ),
    ("galera-2 --drill lose-source", "galera-2 has no drill lose-source", "./lab drill"),
    ("group --vary clients=1,2 --engine mariadb", "engine mariadb has no group", "--engine mysql"),
    ("drbd --vary clients=1,2 --storage node1=raid0", "virtual machines have their own disk", "./lab disk limit"),
    ("drbd --vary clients=1,2 --disk node1=ssd", "virtual machines have their own disk", "./lab disk limit"),
    ("drbd --vary cnf=none,my.cnf", "virtual machines, which are not restarted with a file", "./lab ask drbd"),
    ("drbd --vary node2.sync_binlog=0,1", "no server runs on node2 of drbd", "node1.sync_binlog"),
    ("drbd-ha --vary protocol=A,B", "DRBD has no protocol A in drbd-ha", "./lab ask drbd"),
    ("drbd,semisync --vary protocol=A,B", "semisync has no replicated disk", "./lab ask drbd"),
    ("galera,async --engine source=mysql-8.0", "unknown node 'source'", "./lab list topologies"),
    ("semisync --drill lose-source --baseline topology=async", "unknown value of topology", "one of semisync"),
]
QUESTION = "semisync --vary clients=1,2"
MISTAKES = [(f"{QUESTION} {typed}", found, on) for typed, found, on in IN_A_QUESTION] + BY_ITSELF


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files that the mistakes name."""
    made = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (made / name).write_bytes(content)
    return made


@pytest.fixture
def files(monkeypatch, folder):
    """Work in that folder, on a machine whose Docker engine may not be asked."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(world.docker_engine, "ensure", lambda: pytest.fail("the mistake was not refused"))


@pytest.mark.parametrize(("typed", "found", "way_on"), MISTAKES, ids=[typed for typed, _, _ in MISTAKES])
def test_a_mistake_is_one_error_before_anything_starts(lab, files, typed, found, way_on):
    """The error says what happened, what was expected and, if a command helps, what to type next."""
    status, out, err = lab("ask", *shlex.split(typed))
    lines = err.strip().splitlines()

    assert (status, out) == (2, "")
    assert lines[0].startswith("error: ") and found in lines[0]
    assert [line.partition(": ")[0] for line in lines[1:]] in (["expected"], ["expected", "next"]), err
    assert way_on in "\n".join(lines[1:])


def test_every_option_is_mistaken_at_least_once():
    """A new option comes with the mistakes that can be made in it."""
    context = click.Context(cli.cli, info_name="lab")
    deferred: dict[str, Any] = cli.cli.commands
    command = deferred["ask"].load()
    options = {name for each in command.get_params(context) if isinstance(each, click.Option) for name in each.opts[:1]}
    tried = {word.partition("=")[0] for typed, _, _ in MISTAKES for word in typed.split() if word.startswith("--")}

    assert options - {"-h", "--quiet", "--verbose"} <= tried
    assert len(MISTAKES) >= 40


def test_a_question_is_saved_before_anything_is_measured(lab, files, folder, monkeypatch):
    """A folder that is missing ends the command before the measurements, not after them."""
    saved = []
    monkeypatch.setattr(
        world.docker_engine, "ensure", lambda: saved.append((folder / "question.yaml").exists()) or 1 / 0
    )

    lab("ask", *shlex.split(QUESTION), "--save", "question.yaml")

    assert saved == [True]


def test_a_saved_question_is_saved_again(lab, files, folder, monkeypatch):
    """Only a file of another kind is kept."""
    monkeypatch.setattr(world.docker_engine, "ensure", lambda: 1 / 0)
    for clients in ("1,4", "1,8"):
        lab("ask", "semisync", "--vary", f"clients={clients}", "--save", "again.yaml")

    assert "'8'" in (folder / "again.yaml").read_text()
    assert (folder / "my.cnf").read_bytes() == FILES["my.cnf"]
