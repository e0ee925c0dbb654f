"""Does each refusal that needs a rare state say what to type next? Here is the state of each.

tests/unit/conftest.py lets the real command line parse the commands that a message prints.
"""

import socket
from functools import partial
from pathlib import Path
from types import SimpleNamespace as Some

import click
import pytest
from docker.errors import APIError
from replication_lab import replication, runs
from replication_lab.attach import plan as planned
from replication_lab.cli import _with_the_way_on
from replication_lab.experiments import _options
from replication_lab.faults import cut_off, new_replica, schema_change, upgrade, writers
from replication_lab.faults._servers import OnServers
from replication_lab.lab import down, managers, sites, sql_files, up
from replication_lab.live import labs as live_labs
from replication_lab.live import server as live_server
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.question.sql_text import SqlLine
from replication_lab.probes import galera, node_resources, redo_log
from replication_lab.probes.forbidden_logs import LogWatch
from replication_lab.pytest_plugin import handles
from replication_lab.replication import failover
from replication_lab.replication import switchover as switched
from replication_lab.runner import asked_drills
from replication_lab.runner.behind import Behind
from replication_lab.runner.session import EngineSession
from replication_lab.runner.succession import ByManager
from replication_lab.testcontainers import compose
from replication_lab.world import installing
from replication_lab.world.docker import archives, attached_servers, own_engine, project, reach
from replication_lab.world.docker.attached import AttachedLab
from replication_lab.world.docker.endpoint import RunningEndpoint
from replication_lab.world.docker.service import Service
from replication_lab.world.installing import run_as_root
from replication_lab.world.mysql import accounts
from replication_lab.world.mysql.accounts import Account
from replication_lab.world.mysql.semisync import SemiSync
from replication_lab.world.packets import large_packets

from tests.fakes.states import failing, hurry, made, of
from tests.unit.synthetic import record


def attached():
    """Return an attached project of which nothing is read."""
    return made(AttachedLab, name="shop")


def in_cluster(_patch):
    raise planned._not_between("node1", "node2", Some(is_cluster=True, replication="galera"))


def without_a_command(_patch):
    raise _with_the_way_on(click.UsageError("it is none"))


def twins_of_options(_patch):
    _options._with_twins(Some(conditions={"cnf": 1}, name="single_load"), Some(name="mariadb-10.11"))


def nothing_to_break(_patch):
    raise cut_off.none_to_break(of(), "endpoint")


def copy_by_an_unknown_program(_patch):
    lab = of(node=lambda _: Some(dialect=Some(family="mariadb")))
    new_replica.NewReplica(lab, ["replica"], "xtrabackup")


def copy_between_sites(_patch):
    lab = of(node=lambda name: Some(dialect=Some(family="mariadb"), site=name))
    new_replica.NewReplica(lab, ["replica"], "backup")


def change_of_galera_alone(_patch):
    schema_change.SchemaChange(of("async"), ["source"], "rsu")


def switched_to_the_source(patch):
    patch.setattr(replication, "of", lambda _: Some(written_at=lambda: "source"))
    writers.Switchover(of(), ["source"]).begin("source")


def neither_server_starts(patch):
    fault = made(upgrade.Upgrade, lab=of(), _to="mysql-8.0", _before={"replica": "mysql-5.7"}, refusals={})
    patch.setattr(fault, "_run", lambda *_: None)
    patch.setattr(fault, "_why_ended", lambda _: "a data dictionary of later versions")
    fault._exchange("replica")


def attached_project_down(patch):
    patch.setattr(down.project, "all_labs", lambda: {"shop": attached()})
    patch.setattr(down.labels, "owners", dict)
    down._remove("shop", ())


def unmoved_address(_patch):
    managers.refuse_no_address(Some(name="address"), None)


def quiet_without_its_nodes(patch):
    patch.setattr(managers, "prove", lambda _: [Proof("keepalived manages the nodes", "it sees no node", False)])
    managers.begin_quietly(of())


def at_other_sites(patch):
    patch.setattr(sites.sites, "of_service", lambda *_: "here")
    sites.refuse_another_place(of(), Some(sites={"replica": "there"}, address=""))


def broken_in_a_file(patch):
    lost = Some(line=1, code=2013, said="Lost connection to server during query")
    node = Some(run_sql=lambda *_: lost)
    patch.setattr(replication, "of", lambda _: Some(client=lambda *_, **__: ["mariadb"]))
    patch.setattr(sql_files, "_sources", lambda *_: "")
    lab = of(administrator=lambda _: ("root", "x"), node=lambda _: node, database=lambda _: "lab")
    sql_files.run_lines(lab, "source", [SqlLine("a.sql line 1", "UPDATE t SET a = 1;")])


def up_again(patch, engine="mariadb", options=()):
    patch.setattr(up.servers, "shown", lambda *_: "mariadb")
    patch.setattr(up.lab_files, "saved_state", lambda _: Some(options={}))
    patch.setattr(up.start_options, "options_in", lambda *_: {"source": {"sync_binlog": "1"}})
    up._again(
        of(engine=engine, containers={}),
        Some(topology="x", engine="mariadb", sites={}, address="", init=(), options=options),
        print,
    )


def unproved_start(_patch):
    up._refuse_unproved(of(), [Proof("link source-replica", "300 ms", False)], print)


def silent_link(patch):
    patch.setattr(up, "clear", lambda _: None)
    patch.setattr(up, "RoundTrip", lambda *_: Some(typical=lambda: None, close=lambda: None))
    up._put_and_measured(of(link=lambda _: 0), "source-replica", None, 1)


def viewed_without_a_topology(patch):
    patch.setattr(live_labs.docker_engine, "ensure", lambda: None)
    patch.setattr(live_labs.project, "all_labs", dict)
    with live_labs.viewed(None, "shop", None, print):
        """It is refused before."""


def page_at_a_used_port(patch):
    patch.setattr(live_server.uvicorn, "Server", lambda _: Some(started=False, run=lambda *_, **__: None))
    patch.setattr(live_server, "_run", lambda _: None)
    with live_server._running(None, 80):
        """It is refused before."""


def drills_of_an_experiment(_patch):
    record().drills  # noqa: B018 - the property is refused


def unsynced(patch):
    patch.setattr(galera, "SYNCED_SECONDS", 0)
    patch.setattr(galera, "GaleraNode", lambda _: Some(status=lambda: Some(synced=False)))
    galera.wait_until_synced([Some(name="node1")], 3)


def node_that_ended(_patch):
    node_resources.sample(of(node=lambda _: Some(state=lambda: ("exited", 1))), "source", 1)


def address_of_a_stopped_node(patch):
    patch.setattr(handles, "connections", lambda _: [])
    lab = Some(name="shop", raw=Some(refresh=lambda: None))
    made(handles.LabNode, lab=lab, name="source").connection  # noqa: B018 - the property is refused


def no_gtids(patch):
    patch.setattr(replication, "kind_of", lambda _: Some(follows_a_source=True))
    failover.refuse_unable(of(engine="mysql-5.5", node=lambda _: Some(dialect=Some(gtids=False))), "failover")


def drill_of_one_engine(patch):
    drill = Some(name="kill", settings=(), semisync=None, engine="mysql-5.6")
    patch.setattr(asked_drills, "_named", lambda *_: drill)
    state = Some(replication="semisync", protocol=None, servers=Some(variables=()))
    asked_drills._of_case(Some(drill="kill"), Some(name="far", state=state), Some(topology="semisync"))


def no_replica_answers(_patch):
    made(ByManager, _nodes=Some(positions=dict), _lab=of())._most_advanced()


def figures_that_cannot_be_drawn(patch):
    patch.setattr(runs, "_write", failing(OverflowError("too large")))
    patch.setattr(runs.formats, "files", lambda *_: [])
    runs.write_report(Path("run"), None, None, None)


def proxy_of_a_project(_patch):
    attached().toxiproxy  # noqa: B018 - the property is refused


def refused_account(patch):
    patch.setattr(attached_servers, "version_for", lambda *_: None)
    attached_servers.server_at("db", ("db", 3306), Account("root", "x", "the environment"))


def silent_endpoint(patch):
    patch.setattr(socket, "create_connection", failing(ConnectionRefusedError("Connection refused")))
    service = Some(published=lambda _: ("db", 1), project="shop")
    RunningEndpoint("haproxy", Some(states=8404), service, None).states()


def another_image(patch):
    patch.setattr(project.servers, "of_nodes", lambda *_: {"node1": "x"})
    patch.setattr(project.servers, "ready", lambda _: Some(image="mysql:8.4", engine="mysql"))
    patch.setattr(project, "features_of", lambda _: set())
    server = Some(version=lambda: "8.4.0")
    project._refuse_another_server(of(engine="mysql", node=lambda _: Some(server=lambda: server)))


def refused_by_the_engine(_patch):
    held = Some(project="shop", by_service={"source": Some(exec_run=failing(APIError("it ended")))})
    Service(held, "source").run("true")


def refused_act(_patch):
    held = Some(project="shop", by_service={"source": 0})
    Service(held, "source")._apply(failing(APIError("it ended")))


def command_of_root(patch):
    patch.setattr(installing.subprocess, "run", lambda *_, **__: Some(returncode=1))
    run_as_root(["false"])


def server_without_an_answer(patch):
    patch.setattr(accounts.tls, "TlsConnection", failing(OSError("timed out")))
    accounts.version_for(("db", 3306), Account("root", "x", "the environment"))


def second_acknowledgement(_patch):
    server = Some(name="source", dialect=Some(semisync_source="rpl_semi_sync_master", semisync_count=""))
    SemiSync(server).set(enabled=True, acknowledgements=2)


def link_without_a_greeting(_patch):
    large_packets._prove(Some(name="source-replica", greets=lambda _: False))


def replica_that_did_not_clone(patch):
    hurry(patch)
    patch.setattr(new_replica.failover, "dialled", lambda *_: ("source", 3306))
    patch.setattr(new_replica, "has_ended", lambda _: False)
    cloning = Some(execute=print, set_global=lambda **_: None)
    server = Some(execute=print, rows=lambda _: [1], answering_within=lambda _: cloning)
    parts = {"_given": lambda _: {"MYSQL_PWD": "x"}, "server": lambda _: server}
    copied = made(new_replica.NewReplica, lab=of(node=print), _source="source", _way=Some(clone="CLONE"), **parts)
    copied.replica = lambda _: Some(stop_following=lambda lose: None)
    copied._clone("replica")


def case_whose_node_ended(patch):
    noise = Some(close=lambda: None)
    run = Some(world=Some(now=str, noise=lambda *_: noise), up={"": [Some(exit_reason=lambda: "source has ended")]})
    measuring = made(EngineSession, engine="mariadb", run=run, machine="", _filled=failing(LabError("x")))
    measuring._measure(Some(name="far"), 1)


def more_written_during_the_switch(patch):
    patch.setattr(switched, "_kept_role", lambda *_: None)
    patch.setattr(switched, "_undo", lambda *_: None)
    patch.setattr(switched, "Replica", lambda _: Some(end_replication=lambda: None))
    patch.setattr(switched, "BinaryLog", lambda _: Some(gtids=str))
    patch.setattr(switched.failover, "beyond", lambda *_: switched.gtid.beyond("0-1-12", "0-1-10"))
    switched._promote(of(node=lambda _: Some(server=lambda: None)), Some(name="replica"), "source", None)


def engine_that_does_not_start(patch):
    hurry(patch)
    patch.setattr(own_engine, "answers", lambda: False)
    patch.setattr(own_engine, "_missing", lambda: Some(packages=()))
    for name in ("allow", "run_as_root"):
        patch.setattr(own_engine, name, lambda _: None)
    own_engine.provide()


def silent_machine_of_the_engine(patch):
    hurry(patch)
    for room, name in ((reach.images, "ensure"), (reach.site_images, "bring"), (reach, "Conversation")):
        patch.setattr(room, name, lambda *_, **__: None)
    patch.setattr(reach._Hand, "answers", lambda _: False)
    reach._Hand("")


def unproved_at_the_end(patch, *, ok=False):
    link = Some(name="app-db")
    lab = Some(name="shop", refresh=lambda: None, topology=Some(links=[link]), link=lambda _: link, use=str)
    lab.leads_through = lambda _: False
    patch.setattr(compose, "RoundTrip", lambda _: Some(close=lambda: None))
    patch.setattr(compose, "prove_link", lambda *_, **__: Proof("link app-db", "1 ms", ok, "40 ms"))
    compose._refuse_unproved(lab, "40ms")


STATES = {
    in_cluster: "./lab up galera",
    without_a_command: "./lab --help",
    twins_of_options: "./lab run single_load --against mariadb-10.11",
    nothing_to_break: "./lab drill --help",
    lambda _: OnServers(attached(), ["db"]): "./lab drill",
    lambda _: upgrade.Upgrade(attached(), ["db"], "mysql"): "./lab drill",
    copy_by_an_unknown_program: "./lab drill",
    copy_between_sites: "./lab drill",
    change_of_galera_alone: "./lab drill",
    switched_to_the_source: "./lab status",
    neither_server_starts: "./lab logs replica --lab shop",
    attached_project_down: "./lab detach --lab shop",
    unmoved_address: "./lab up semisync --manager keepalived --endpoint address",
    lambda _: managers.running(of(manager=None)): "./lab up semisync --manager NAME",
    quiet_without_its_nodes: "./lab up semisync",
    at_other_sites: "./lab down --lab shop",
    broken_in_a_file: "look for its effect before you run it again: ./lab sql source; ./lab status",
    partial(up_again, engine="mysql"): "./lab down --lab shop",
    partial(up_again, options=("sync_binlog=1",)): "./lab down --lab shop",
    unproved_start: "./lab up semisync",
    silent_link: "./lab status",
    viewed_without_a_topology: "./lab live semisync --lab shop",
    lambda _: live_labs._refuse_another(of(), "galera"): "./lab live --lab shop",
    page_at_a_used_port: "./lab live --port 0",
    drills_of_an_experiment: "./lab report RUN",
    lambda _: LogWatch(of(), ["deadlok"]): "./lab drill",
    unsynced: "./lab sql node1 -e \"SHOW STATUS LIKE 'wsrep%'\"",
    node_that_ended: "./lab status --lab shop",
    lambda _: redo_log.read_redo(Some(name="db", dialect=Some(redo=None))): "./lab list engines",
    address_of_a_stopped_node: "./lab status --lab shop",
    lambda _: failover.refuse_unable(of("galera"), "failover"): "./lab up async",
    lambda _: failover.link_port(of(), "source", "nosuch"): "./lab status",
    no_gtids: "./lab list engines",
    drill_of_one_engine: "./lab drill semisync --drill kill",
    lambda _: Behind(of(endpoint=None), Some(name="kill")): "./lab drill",
    no_replica_answers: "./lab status --lab shop",
    figures_that_cannot_be_drawn: "./lab report --format text",
    proxy_of_a_project: "./lab up",
    refused_account: "./lab attach --help",
    silent_endpoint: "./lab status --lab shop",
    another_image: "./lab list engines",
    refused_by_the_engine: "./lab status --lab shop",
    refused_act: "./lab status --lab shop",
    command_of_root: "fix the cause, then ./lab doctor",
    server_without_an_answer: "./lab status",
    second_acknowledgement: "./lab list engines",
    link_without_a_greeting: "./lab status",
    replica_that_did_not_clone: "./lab logs replica --lab shop",
    case_whose_node_ended: "./lab report latest",
    more_written_during_the_switch: "./lab status",
    engine_that_does_not_start: "tail /var/log/replication-lab-dockerd.log; ./lab doctor",
    silent_machine_of_the_engine: "./lab doctor",
    unproved_at_the_end: "./lab status --lab shop",
    partial(unproved_at_the_end, ok=True): "./lab status --lab shop",
}


@pytest.mark.parametrize(("state", "step"), STATES.items())
def test_a_refusal_of_a_rare_state_says_what_to_type(state, step, monkeypatch, refused):
    """The whole of its next step."""
    assert refused(state, monkeypatch).next_step == step


def test_a_folder_for_images_that_cannot_be_made_says_what_to_type(tmp_path, refused):
    """Its parent is a file."""
    (tmp_path / "file").touch()

    assert refused(archives.save, tmp_path / "file" / "folder", []).next_step == "lab images save DIR"
