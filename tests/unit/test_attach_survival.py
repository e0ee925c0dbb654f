"""Is a server recreated only if everything that it needs afterwards lies where a recreated container finds it?"""

from types import SimpleNamespace

import pytest
from replication_lab.attach import survival
from replication_lab.attach.survival import Mount, lost, places
from replication_lab.model.core.errors import LabError

from tests.unit.attached_projects import project

DATA = "/var/lib/mysql/"
USUAL = {
    "datadir": DATA,
    "innodb_data_home_dir": "",
    "innodb_data_file_path": "ibdata1:12M:autoextend",
    "innodb_log_group_home_dir": "./",
    "innodb_undo_directory": "./",
    "log_bin_basename": f"{DATA}binlog",
    "relay_log": "relay",
}
ON_A_VOLUME = [Mount("/var/lib/mysql")]


def test_a_server_with_all_on_its_volume_survives():
    """What is relative lies in the data directory."""
    assert lost(places(USUAL), ON_A_VOLUME) == {}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"relay_log": "/var/log/mysql/relay"}, ["relay_log"]),
        ({"log_bin_basename": "/binlogs/bin", "log_bin_index": "/binlogs/bin.index"}, None),
        ({"innodb_log_group_home_dir": "/redo"}, ["innodb_log_group_home_dir"]),
        ({"innodb_undo_directory": "../mysql-undo"}, ["innodb_undo_directory"]),
        ({"innodb_data_home_dir": "/shared/innodb"}, ["innodb_data_home_dir", "innodb_data_file_path"]),
        ({"innodb_data_file_path": "ibdata1:1G;/fast/ibdata2:1G:autoextend"}, None),
        ({"keyring_file_data": "/var/lib/mysql-keyring/keyring"}, ["keyring_file_data"]),
        ({"datadir": "/var/lib/mysql2/"}, ["datadir", "innodb_data_file_path", "relay_log"]),
    ],
)
def test_what_lies_beside_the_volume_is_lost(settings, names):
    """Each of the places, by its variable; a folder whose name only begins alike is another one."""
    found = lost(places({**USUAL, **settings}), ON_A_VOLUME)

    assert set(found) >= set(names or ()) and found and DATA not in str(found)
    assert all("on no volume" in reason for reason in found.values())


def test_a_volume_for_the_logs_only_does_not_keep_the_data():
    """A volume at a folder whose name contains that of the server."""
    found = lost(places(USUAL), [Mount("/var/log/mysql"), Mount("/etc/mysql/conf.d")])

    assert found["datadir"] == "/var/lib/mysql, which is on no volume"


def attrs(*found, binds=(), tmpfs=()):
    return {"Mounts": list(found), "HostConfig": {"Binds": list(binds), "Tmpfs": dict.fromkeys(tmpfs, "")}}


def volume(name, folder):
    return {"Type": "volume", "Name": name, "Destination": folder}


NAMED, ANONYMOUS = volume("shop_data", "/data"), volume("a" * 64, "/data")
BIND = {"Type": "bind", "Source": "/srv/data", "Destination": "/data"}


@pytest.mark.parametrize(
    ("found", "inherited", "loses"),
    [
        (attrs(NAMED, binds=["shop_data:/data"]), (), ""),
        (attrs(BIND), (), ""),
        (attrs(ANONYMOUS), ("/data",), ""),
        (attrs(ANONYMOUS, binds=[f"{'a' * 64}:/data"]), (), ""),
        (attrs(ANONYMOUS), (), "which Compose does not keep"),
        (attrs({"Type": "tmpfs", "Destination": "/data"}), (), "is a tmpfs"),
        (attrs(volume("shop_v", "/"), binds=["shop_v:/"], tmpfs=["/data"]), (), "is a tmpfs"),
        (attrs(volume("fast", "/data"), binds=["fast:/data"]), (), "is the volume fast, which is in memory"),
    ],
)
def test_a_mount_is_judged_by_what_survives_and_not_by_its_name(found, inherited, loses):
    """The innermost one counts; a named volume may be in memory."""
    mount = survival.holding(survival.mounts_of(found, inherited, {"fast"}), "/data/mysql")

    assert mount is not None and loses in mount.loses and bool(loses) == bool(mount.loses)


def container(found, links=None):
    """Return a container with symbolic links."""

    def readlink(command):
        path = command[-1]
        target = next((path.replace(link, to, 1) for link, to in (links or {}).items() if path.startswith(link)), path)
        return 0, target.encode()

    attributes = {**found, "Config": {"Image": "db"}}
    return SimpleNamespace(name="shop-db-1", attrs=attributes, exec_run=readlink)


def server(settings):
    def rows(_sql):
        raise LabError("no such table")

    return SimpleNamespace(settings=lambda *_names: settings, rows=rows)


@pytest.fixture
def check(monkeypatch):
    monkeypatch.setattr(survival.images, "volumes", lambda _image: [])
    monkeypatch.setattr(survival.volumes, "is_in_memory", lambda _name: False)
    return lambda settings, one: survival.check(project(), "db", server(settings), one)


def test_a_server_that_would_lose_its_data_is_refused_by_name(check, refused):
    """With each variable and path, and how the data are saved; nothing was changed by then."""
    error = refused(check, USUAL, container(attrs(volume("shop_log", "/var/log/mysql"), binds=["shop_log:/x"])))

    assert "a link from db would recreate its container, and its server would lose" in error.found
    assert "datadir: /var/lib/mysql, which is on no volume" in error.found
    assert error.next_step == "docker cp shop-db-1:/var/lib/mysql ./db-data"


def test_symbolic_links_are_followed(check, refused):
    """A folder of the image may lead to the volume, and one of the volume out of it."""
    on_data = attrs(volume("shop_data", "/data"), binds=["shop_data:/data"])
    check(USUAL, container(on_data, {"/var/lib/mysql": "/data/mysql"}))

    out = container(attrs(volume("v", "/var/lib/mysql"), binds=["v:/x"]), {"/var/lib/mysql/relay": "/tmp/relay"})
    assert "relay_log: /tmp/relay, which is on no volume" in refused(check, USUAL, out).found


def test_the_keyring_of_a_component_is_asked_for(check, refused, monkeypatch):
    """MySQL's image has a folder for it that is no volume. A server that does not know the question has none."""
    on_volume = container(attrs(volume("v", "/var/lib/mysql"), binds=["v:/x"]))
    asked = server(USUAL)
    monkeypatch.setattr(
        asked, "rows", lambda sql: [{"path": "/var/lib/mysql-keyring/keys"}] if "keyring" in sql else []
    )
    error = refused(survival.check, project(), "db", asked, on_volume)

    assert "the keyring in /var/lib/mysql-keyring/keys: /var/lib/mysql-keyring/keys, which is on no" in error.found


def test_a_server_that_does_not_tell_where_its_data_are_is_refused(check, refused):
    """Nothing is assumed of it."""
    assert "does not say where its data are" in refused(check, {}, container(attrs())).found
