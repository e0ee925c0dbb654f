"""Does `lab attach` ask before it recreates containers, and say what was not seen?"""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from replication_lab.attach import compose_project
from replication_lab.attach import plan as attach_plan
from replication_lab.attach.as_before import NotAsBefore
from replication_lab.attach.attach import NOTHING_FLOWS
from replication_lab.attach.plan import AttachPlan
from replication_lab.cli import attach as command
from replication_lab.cli import cli, console
from replication_lab.model.core.errors import LabError
from replication_lab.model.core.proof import Proof
from replication_lab.model.lab.attachment import Consumer
from replication_lab.world.docker import attachments, compose_call

from tests.unit.attached_projects import attachment

SEEN = Proof("app uses link app-db", "3 connections so far", True)
UNSEEN = Proof("app uses link app-db", f"{NOTHING_FLOWS}: app has opened no connection in 15 s", False)


PLAN = AttachPlan(
    attachment(consumers=[Consumer("app", 2, "hash")]), {}, attachments.KeptAttachment(), ["db2 is left out: why"]
)


class Attach:
    """Runs `lab attach` on a plan that exists already; `done` are the conditions with which it attached."""

    def __init__(self):
        self.done, self.proofs = [], []

    def __call__(self, *options, proofs=(SEEN,), answer=""):
        self.proofs = list(proofs)
        return CliRunner().invoke(cli, ["attach", "--link", "app:db", *options], input=answer, prog_name="lab")

    def attach(self, found, condition, _tell):
        self.done.append(condition)
        return SimpleNamespace(name="shop", topology=found.attached.topology), self.proofs


@pytest.fixture
def attach(monkeypatch):
    found = Attach()
    monkeypatch.setattr(command, "plan", lambda _asked: PLAN)
    monkeypatch.setattr(command.attaching, "attach", found.attach)
    return found


def test_without_a_terminal_and_without_yes_nothing_is_changed(attach):
    """The error says which services, and what to add."""
    said = attach()

    assert isinstance(said.exception, LabError) and attach.done == []
    assert "app of shop would be recreated; there is no terminal" in said.exception.found
    assert said.exception.next_step == (
        "./lab attach --project-name shop --file /shop/docker-compose.yml --link app:db --yes"
    )


def test_what_will_be_recreated_is_said_before(attach):
    """With how many containers, and what was left out."""
    said = attach("--yes", "--rtt", "40ms")

    assert said.exit_code == 0 and attach.done == ["40ms"]
    assert "2 containers of app will be recreated, now and at `lab detach`" in said.output
    assert "db2 is left out: why" in said.output and "restore   ./lab detach --lab shop" in said.output


def test_drills_that_would_be_refused_are_not_proposed(attach, monkeypatch):
    """The reason is said before anything changes."""
    assert "drill     ./lab drill --lab shop\n  connect " in attach("--yes").output
    monkeypatch.setattr(command, "plan", lambda _: replace(PLAN, no_drills="db has the filter Binlog_Do_DB = app"))
    said = attach("--yes").output

    assert "`lab drill` will be refused: db has the filter Binlog_Do_DB = app" in said
    assert "./lab drill" not in said and "restore   ./lab detach --lab shop" in said


def test_a_volume_without_a_name_is_said_before(attach, monkeypatch):
    """Compose forgets that it had none."""
    consumer = Consumer("replica", 1, "hash", (), {"a" * 64: "/var/lib/mysql"})
    found = AttachPlan(attachment(consumers=[consumer]), {}, attachments.KeptAttachment(), [])
    monkeypatch.setattr(command, "plan", lambda _asked: found)

    said = " ".join(attach("--yes").output.split())
    assert "replica has /var/lib/mysql on a volume without a name: `docker compose down --volumes` will no" in said


def mounted(name, **host):
    mounts = [{"Type": "volume", "Name": name, "Destination": "/data"}, {"Type": "bind", "Destination": "/etc/x"}]
    return SimpleNamespace(attrs={"Mounts": mounts, "HostConfig": host})


@pytest.mark.parametrize(
    ("container", "unnamed"),
    [
        (mounted("a" * 64, Binds=None, Mounts=None), True),
        (mounted("shop_data", Binds=["shop_data:/data"]), False),
        (mounted("a" * 64, Mounts=[{"Type": "volume", "Source": "a" * 64, "Target": "/data"}]), False),
        (mounted("a" * 64, Binds=[f"{'a' * 64}:/data:rw"]), False),
    ],
)
def test_a_volume_that_goes_with_its_container_is_known(container, unnamed):
    """Not one that Compose has named already, when it recreated the container."""
    assert compose_project.unnamed_volumes(container) == ({"a" * 64: "/data"} if unnamed else {})


@pytest.mark.parametrize(("differences", "code"), [([], 0), (["app has other networks"], 1)])
def test_detach_prints_what_differs_and_how_to_remove_a_volume(monkeypatch, differences, code):
    """In JSON too."""
    done = command.attaching.Detached("shop", differences, [("replica", "a" * 64)])
    monkeypatch.setattr(command.attaching, "detach", lambda _name, _tell: done)
    said = CliRunner().invoke(cli, ["detach"])
    data = CliRunner().invoke(cli, ["detach", "--json"])

    assert said.exit_code == data.exit_code == code
    assert f"\n  docker volume rm {'a' * 64}\n" in said.output
    assert json.loads(data.output)["unnamed_volumes"] == [{"service": "replica", "volume": "a" * 64}]


BROKEN = NotAsBefore("replica is not as before: 1049", "as before", "docker logs shop-replica-1")


def test_a_project_whose_servers_are_not_as_before_is_status_1(attach, monkeypatch):
    """After an attachment that was undone, and after detach; with the server's error and the command that mends it."""

    def broken(*_):
        raise BROKEN

    monkeypatch.setattr(command.attaching, "attach", broken)
    done = command.attaching.Detached("shop", [], [], BROKEN)
    monkeypatch.setattr(command.attaching, "detach", lambda _name, _tell: done)
    data = CliRunner().invoke(cli, ["detach", "--json"])

    for said in (attach("--yes"), CliRunner().invoke(cli, ["detach"]), data):
        assert said.exit_code == 1 and "replica is not as before: 1049" in said.stderr
        assert "next: docker logs shop-replica-1" in said.stderr
    assert json.loads(data.stdout)["broken"] == BROKEN.found


@pytest.mark.parametrize(("answer", "attached"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_at_a_terminal_it_is_asked(attach, monkeypatch, answer, attached):
    """The usual answer is no."""
    monkeypatch.setattr(console, "at_terminal", lambda: True)
    said = attach(answer=answer)

    assert bool(attach.done) is attached
    assert attached or "nothing was changed" in str(said.exception)


def test_a_link_over_which_nothing_flows_is_not_green(attach):
    """Attached, and unknown."""
    assert attach("--yes", proofs=(SEEN, UNSEEN)).exit_code == 3


@pytest.mark.parametrize(
    ("account", "warned"), [("mysql://root:secret@", True), ("mysql://reader@", False), ("@FILE", False)]
)
def test_a_password_that_others_can_read_is_warned_of(attach, tmp_path, account, warned):
    """With the way that hides it; it works all the same."""
    file = tmp_path / "account"
    file.write_text("mysql://root:secret@")
    file.chmod(0o600)
    said = attach("--yes", "--dsn", f"db={account.replace('FILE', str(file))}")

    assert ("every user of this host can read the password" in said.stderr) is warned
    assert ("--dsn db=@FILE" in said.stderr) is warned and "secret" not in said.output
    assert said.exit_code == 0 and attach.done == ["none"]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--rtt", "forty"], "unknown toxic 'forty'"),
        (["--link", "app"], "does not name two services"),
        (["--dsn", "db=secret"], "the value of --dsn is not an account"),
    ],
)
def test_bad_options_are_refused_before_docker_is_asked(attach, options, found):
    """The condition, each link, each account."""
    said = attach("--yes", *options)

    assert found in said.exception.found and attach.done == [] and "secret" not in said.exception.found


def test_files_that_are_none_are_refused():
    """By their names, before Compose says less."""
    asked = attach_plan.AskedAttachment([attach_plan.AskedLink("app", "db")], files=["/nowhere/compose.yaml"])
    with pytest.raises(LabError, match=r"/nowhere/compose\.yaml is not a file"):
        attach_plan.plan(asked)


def test_a_dry_run_says_which_services_would_change(monkeypatch):
    """Not those that run as they are."""
    said = """ DRY-RUN MODE -  Container shop-db-1  Running
 DRY-RUN MODE -  Container shop-app-1  Recreate
 DRY-RUN MODE -  Container shop-app-1  Recreated
 DRY-RUN MODE -  Container shop-cache-1  Creating
"""
    monkeypatch.setattr(compose_call, "run", lambda *_, **__: said)
    found = {"app": [SimpleNamespace(name="shop-app-1")], "db": [SimpleNamespace(name="shop-db-1")]}

    assert compose_call.would_change(attachment().compose, {"app": 1}, found) == ["app", "shop-cache-1"]
