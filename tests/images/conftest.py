"""Containers for the tests of the images: labelled, always removed, asked by conditions and never by sleeping."""

import contextlib
import io
import secrets
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

import docker.errors
import pymysql
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.world import catalogue
from replication_lab.world.docker import images

from tests.images.engines import ENGINES, QUICK
from tests.images.own_image import BAKE

LABEL = "replication-lab.test"
FLOATING = "mysql"
# What is waited for comes; the deadline ends a test that hangs.
PATIENCE_S = 120


def until(condition, what):
    """Return the first true value of ``condition()``; fail with ``what`` was waited for after PATIENCE_S seconds."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.05)
    return value


class Server:
    """A database container and the questions a test asks it."""

    def __init__(self, container, password):
        self.container = container
        self.password = password

    @property
    def name(self):
        return self.container.name

    def connect(self, user="root", password=None, **options):
        """Open a connection by TCP, as ``user``; raises ``pymysql.err.OperationalError`` when refused."""
        self.container.reload()
        port = int(self.container.ports["3306/tcp"][0]["HostPort"])
        password = self.password if password is None else password
        options |= {"connect_timeout": 5, "autocommit": True}
        return pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, **options)

    def ask(self, statement):
        """Run one statement as root and return its rows."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def run(self, script):
        """Run the statements of ``script``, separated by semicolons, in one session as root."""
        lines = [line.partition("--")[0] for line in script.splitlines()]
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in filter(str.strip, " ".join(lines).split(";")):
                cursor.execute(statement)

    def serves(self):
        """Return whether a query is answered now; fail at once when the container has stopped."""
        self.container.reload()
        if self.container.status == "exited":
            pytest.fail(f"the container stopped instead of serving:\n{self.log()}")
        try:
            return bool(self.ask("SELECT 1"))
        except (pymysql.err.OperationalError, KeyError, IndexError):
            return False

    def wait(self):
        """Return this server once it serves."""
        until(self.serves, f"{self.name} to serve")
        return self

    def execute(self, *command):
        """Run a command in the container; return its exit code and its output."""
        code, output = self.container.exec_run(list(command))
        return code, output.decode().strip()

    def kill_and_start(self):
        """End the server as a power cut would, and start it again."""
        self.container.kill("SIGKILL")
        self.exit_code()
        self.container.start()

    def health(self):
        """Run the health check; return its exit code and line."""
        return self.execute("lab-health")

    def log(self):
        """Return everything that the container has logged."""
        return self.container.logs().decode(errors="replace")

    def exit_code(self):
        """Wait for the container's end and return its exit code."""
        return self.container.wait(timeout=PATIENCE_S)["StatusCode"]


class Stage:
    """Starts servers of one engine and removes them, with their volumes and networks, at the end."""

    def __init__(self, client, engine):
        self.client = client
        self.engine = engine
        self._containers = []
        self._rest = []

    def server(self, *flags, files=None, environment=None, password=None, **options):
        """Start a server with as little power as possible, without waiting for it.

        ``files``: directory → {name → content}, there before the first start. ``environment`` replaces the usual one.
        """
        password = secrets.token_hex(8) if password is None else password
        options |= {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "labels": {LABEL: "1"}}
        container = self.client.containers.create(
            self.engine.image,
            list(flags),
            environment={"MYSQL_ROOT_PASSWORD": password} if environment is None else environment,
            ports={"3306/tcp": ("127.0.0.1", None)},
            **options,
        )
        self._containers.append(container)
        for directory, content in (files or {}).items():
            container.put_archive(directory, archive(content))
        container.start()
        return Server(container, password)

    def volume(self):
        """Create an empty volume."""
        self._rest.append(self.client.volumes.create(labels={LABEL: "1"}))
        return self._rest[-1]

    def network(self):
        """Create a network."""
        name = f"replication-lab-test-{secrets.token_hex(4)}"
        self._rest.append(self.client.networks.create(name, labels={LABEL: "1"}))
        return self._rest[-1]

    def clear(self):
        """Remove the containers, then what they used; what is removed already is no error."""
        with ThreadPoolExecutor() as together:
            list(together.map(remove_container, self._containers))
        for thing in self._rest:
            thing.remove()


def remove_container(container):
    with contextlib.suppress(docker.errors.NotFound):
        container.remove(force=True, v=True)


def archive(files):
    """Return a tar archive of ``files`` (name → text or bytes), owned by the servers' account, executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.uid, member.gid = (len(data), 0o755, 999, 999)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def build(image):
    """Build ``image`` if it is missing or out of date; skip the test if the floating server of Sid fails to build."""
    name = image.removeprefix(images.PREFIX)
    try:
        images.ensure([name])
    except LabError as error:
        if name != FLOATING:
            raise
        pytest.skip(f"{image} did not build, which must harm nobody: {error.found}")


@pytest.fixture(scope="session")
def client(docker):
    """Return the Docker engine's client, from the project's own fixture: started or installed if need be."""
    return docker


def pytest_generate_tests(metafunc):
    """Run each test of an image for the default engine, or with --lab-engine all once for each."""
    if "engine" in metafunc.fixturenames:
        names = ENGINES if metafunc.config.getoption("--lab-engine") == "all" else QUICK[:1]
        metafunc.parametrize("engine", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(request, client):
    engine = ENGINES[request.param]
    build(engine.image)
    return engine


@pytest.fixture(scope="module")
def stage(client, engine):
    stage = Stage(client, engine)
    yield stage
    stage.clear()


@pytest.fixture
def loose_image(client):
    """Return a function that starts a command in any image: ``loose_image(image, *command, **options)`` → container."""
    containers = []

    def start(image, *command, **options):
        build(image)
        options |= {"detach": True, "labels": {LABEL: "1"}}
        containers.append(client.containers.run(image, list(command) or None, **options))
        return containers[-1]

    yield start
    for container in containers:
        remove_container(container)


@pytest.fixture
def name(client, tmp_path, monkeypatch):
    """Return the name of an image that only this test has, in a folder images/ of its own."""
    chosen = f"test-{secrets.token_hex(4)}"
    folder = tmp_path / "images" / chosen
    folder.mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY content /\n")
    (folder / "content").write_text("first")
    (tmp_path / "images" / "bake.yaml").write_text(BAKE.format(name=chosen))
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    monkeypatch.setattr(catalogue, "IMAGES", tmp_path / "images")
    monkeypatch.setitem(images.megabytes(), chosen, 1)
    yield chosen
    for tag in [tag for image in client.images.list() for tag in image.tags if chosen in tag]:
        client.images.remove(tag, force=True)
