"""What a link to a container of Testcontainers needs, is told, and leaves alone, without an engine."""

import subprocess
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from replication_lab.faults.condition import toxic_of
from replication_lab.model.core.errors import LabError, Unproved
from replication_lab.model.core.proof import Proof
from replication_lab.pytest_plugin.containers import InATest
from replication_lab.testcontainers import compose, lab, link
from replication_lab.world.docker import service
from replication_lab.world.docker.service import stays_open
from replication_lab.world.mysql.accounts import Account
from replication_lab.world.packets.toxiproxy import accepted_clients
from testcontainers.compose import DockerCompose
from testcontainers.core.container import DockerContainer

ACCEPTED = '{"name":"test-server","client":"172.17.0.1:57138","message":"Accepted client"}'


def container(network="bridge", mode="bridge", status="running", **environment):
    """Return a container as the engine describes it."""
    networks = {network: {"IPAddress": "172.17.0.9", "NetworkID": network}} if network else {}
    return SimpleNamespace(
        name="db",
        status=status,
        attrs={
            "NetworkSettings": {"Networks": networks},
            "HostConfig": {"NetworkMode": mode},
            "Config": {"Env": [f"{name}={value}" for name, value in environment.items()]},
        },
    )


@pytest.fixture
def asked(monkeypatch):
    """Return the target of a container."""

    def of(found, internal=False):
        networks = SimpleNamespace(get=lambda _: SimpleNamespace(attrs={"Internal": internal}))
        containers = SimpleNamespace(get=lambda _: found)
        monkeypatch.setattr(lab.engine, "client", lambda: SimpleNamespace(networks=networks, containers=containers))
        return lab.target_of(_Given(), 3306)

    return of


class _Given(DockerContainer):
    def __init__(self):
        self._container = SimpleNamespace(id="1")


# --- where a link leads -----------------------------------------------------------------------------------------------


def test_a_container_is_reached_by_its_name_in_a_network_and_by_its_address_in_the_default_one(asked):
    """Only networks that somebody made give names; one without a way out needs the default one besides."""
    assert asked(container()).host == "172.17.0.9"
    found = asked(container("shop", "shop"))
    assert (found.host, found.networks) == ("db", ["shop"])
    assert asked(container("shop", "shop"), internal=True).networks == ["bridge", "shop"]


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (container("host", "host"), "db is in the network host"),
        (container("", "none"), "db is in the network none"),
        (container("", "container:1"), "db is in the network container:1"),
        (container(status="exited"), "db is exited"),
    ],
)
def test_a_container_that_no_link_can_lead_to_is_refused(asked, found, told):
    """With the network that it has instead."""
    with pytest.raises(LabError, match=told):
        asked(found)


def test_an_account_is_taken_from_the_environment_of_a_server_that_accepts_it(asked, monkeypatch):
    """A container with such variables that is no server of MySQL's family is measured by an echo."""
    found = asked(container(MYSQL_ROOT_PASSWORD="secret"))
    answers = {"root": "8.4"}
    monkeypatch.setattr(lab, "version_for", lambda _, account: answers.get(account.user))
    assert found.account_at(("127.0.0.1", 1)) == Account("root", "secret", "MYSQL_ROOT_PASSWORD")
    answers.clear()
    assert found.account_at(("127.0.0.1", 1)) is None
    monkeypatch.setattr(lab, "version_for", lambda *_: (_ for _ in ()).throw(LabError("no answer")))
    assert found.account_at(("127.0.0.1", 1)) is None
    assert asked(container(POSTGRES_PASSWORD="secret")).accounts == ()


# --- what is told -----------------------------------------------------------------------------------------------------


def test_a_proof_that_failed_and_a_link_that_does_not_answer_are_unproved():
    """Neither is an error of the test's own."""
    good, bad = Proof("link", "85 ms", True, "85 ms"), Proof("link", "0.2 ms", False, "85 ms")

    def silent(_):
        raise LabError("Toxiproxy does not answer")

    assert link._proved(lambda _: [good], None) == [good]
    with pytest.raises(Unproved, match=r"link: 0\.2 ms"):
        link._proved(lambda _: [good, bad], None)
    with pytest.raises(Unproved, match="cannot be measured: Toxiproxy does not answer"):
        link._proved(silent, None)


@pytest.mark.parametrize("condition", ["duplicate=1%", "40ms+reorder=2%"])
def test_effects_on_packets_that_an_echo_does_not_see_are_refused(condition):
    """Its packets do not leave the Toxiproxy's container."""
    with pytest.raises(LabError, match="cannot be measured at a server that takes no SQL"):
        link._refuse_unable(toxic_of(condition), SimpleNamespace(account=None))


def test_connections_of_others_are_counted_by_entry():
    """Lines of other kinds, and those that are cut off, count for nothing."""
    log = f'{ACCEPTED}\n{{"message":"Started proxy"}}\n{ACCEPTED}\n{{"message":"Accepted client"'

    assert list(accepted_clients(log)) == [("test-server", "172.17.0.1")] * 2


@pytest.mark.parametrize(
    ("first", "is_open"),
    [(b"", False), (ConnectionResetError(), False), (b"h", True), (TimeoutError(), True)],
    ids=["ended", "reset", "it speaks first", "it waits for a question"],
)
def test_a_port_behind_which_nothing_listens_is_told_from_a_server_that_waits(monkeypatch, first, is_open):
    """Toxiproxy accepts a connection before it knows."""

    def received(_):
        if isinstance(first, Exception):
            raise first
        return first

    found = nullcontext(SimpleNamespace(recv=received))
    monkeypatch.setattr(service.socket, "create_connection", lambda *_, **__: found)

    assert stays_open(("127.0.0.1", 1)) is is_open


# --- a Compose project ------------------------------------------------------------------------------------------------


def test_a_project_is_attached_by_the_files_that_it_was_started_from(monkeypatch, tmp_path):
    """It may have found them by their usual names; paths of environment files are from its folder."""
    file = tmp_path / "compose.yaml"
    file.write_text("services: {}")
    found = DockerCompose(tmp_path, env_file="app.env", profiles=["all"])
    monkeypatch.setattr(DockerCompose, "get_containers", lambda _: [SimpleNamespace(Project="shop")])
    one = SimpleNamespace(labels={"com.docker.compose.project.config_files": str(file)})
    monkeypatch.setattr(compose.compose_call, "containers", lambda _: {"app": [one]})
    given = compose._asked(found, ("app:db",), {"db": ("root", "secret")})

    assert (given.project, given.files, given.profiles) == ("shop", [str(file)], ["all"])
    assert given.env_files == [str(tmp_path / "app.env")]
    assert given.accounts["db"].password == "secret" and str(given.links[0]) == "app:db"


def test_a_project_that_does_not_run_is_refused(monkeypatch, tmp_path):
    """It has no containers that tell its files."""
    monkeypatch.setattr(DockerCompose, "get_containers", lambda _: [])
    with pytest.raises(LabError, match=r"nothing of \S+ runs"):
        compose._asked(DockerCompose(tmp_path), ("app:db",), {})


@pytest.mark.parametrize(
    ("before", "within", "after", "ends"),
    [
        (Unproved("not seen"), None, None, pytest.fail.Exception),
        (None, Unproved("an inner block"), None, pytest.fail.Exception),
        (None, None, Unproved("taken off"), pytest.fail.Exception),
        (None, AssertionError("of the test"), None, AssertionError),
        (None, None, LabError("not as before"), LabError),
    ],
)
def test_in_a_test_an_unproved_link_is_unknown_and_other_errors_are_their_own(before, within, after, ends):
    """At its beginning, in a block of the test, and at its end."""

    def end_by(error):
        if error:
            raise error

    @contextmanager
    def found():
        end_by(before)
        yield "link"
        end_by(after)

    session = SimpleNamespace(engine=lambda: None, policy="fail", name_the_command=lambda _: None)
    with pytest.raises(ends) as caught, InATest(session, found) as made:
        assert made == "link"
        end_by(within)
    assert str(caught.value) == f"UNKNOWN: {before or within or after}" or ends is not pytest.fail.Exception


# --- who needs Testcontainers -----------------------------------------------------------------------------------------


@pytest.mark.whole
@pytest.mark.parametrize("is_there", [True, False])
def test_only_the_fixtures_for_it_need_the_library(tmp_path, is_there):
    """A session without it has the others; one with it loads it only for a test that asks."""
    (tmp_path / "test_it.py").write_text("import sys\ndef test_it(): assert 'testcontainers' not in sys.modules\n")
    plugin = "['-q', '-p', 'no:cacheprovider', '-p', 'replication_lab.pytest_plugin']"
    program = [
        "import importlib.util as util, pytest",
        "find = util.find_spec",
        "" if is_there else "util.find_spec = lambda name, *_: None if name == 'testcontainers' else find(name, *_)",
        f"pytest.main({plugin} + ['--fixtures'])",
        f"raise SystemExit(pytest.main({plugin}))",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(program)], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ("lab_proved_link" in ended.stdout) == is_there and "lab_cluster" in ended.stdout
