"""Is storage that cannot be refused before anything starts, and does the overlay say what was asked for?"""

from types import SimpleNamespace
from typing import ClassVar

import msgspec
import pytest
import yaml
from docker.errors import APIError
from replication_lab.lab import disks, up
from replication_lab.model.lab.disk import Limits
from replication_lab.model.lab.storage import MOST_DISKS, Backend, Needs, Storage, parse_storage
from replication_lab.world import catalogue
from replication_lab.world.disks import array
from replication_lab.world.disks import overlay as storage_overlay
from replication_lab.world.docker import removal
from replication_lab.world.machines import vm

from tests.fakes.lab import FakeLab
from tests.fakes.parts import LabOfNames
from tests.unit.compose_files import Loader

NODES, REPLICAS = ["source", "near", "far"], ["near", "far"]
# What this kernel could say: btrfs, no md.
BTRFS_ONLY = {"ext4", "btrfs", "nodev", "proc", "/dev/loop-control", "/dev/fuse"}
WITH_MD = BTRFS_ONLY | {"/proc/mdstat"}


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ({"level": "raid5"}, "unknown level of storage 'raid5'", "raid0, raid1, single"),
        ({"level": "raid1", "disks": 1}, "raid1 of 1 disk(s)", "2 to 8 disks"),
        ({"level": "raid0", "disks": 1}, "raid0 of 1 disk(s)", "2 to 8 disks"),
        ({"level": "raid0", "disks": MOST_DISKS + 1}, "raid0 of 9 disk(s)", "2 to 8 disks"),
        ({"level": "raid0", "disks": -2}, "raid0 of -2 disk(s)", "2 to 8 disks"),
        ({"level": "single", "disks": 2}, "single of 2 disk(s)", "1 disk"),
        ({"level": "single", "mib": 100}, "the size of a disk is 100 MiB", "1024 MiB or more"),
        ({"level": "single", "mib": 0}, "the size of a disk is 0 MiB", "1024 MiB or more"),
    ],
)
def test_storage_that_cannot_be_is_refused(refused, wanted, found, expected):
    """None is ever made, so none can be started."""
    error = refused(Storage, **wanted)

    assert found in error.found and expected in error.expected


def test_two_disks_are_meant_where_no_number_is_given():
    """And one for a single; only RAID1 survives a disk."""
    assert [Storage(level=level).members for level in ("single", "raid0", "raid1")] == [1, 2, 2]
    assert [Storage(level=level, disks=3).survives for level in ("raid0", "raid1")] == [0, 2]


def test_a_level_without_a_node_is_that_of_all_replicas():
    """And a node named after it has its own."""
    found = parse_storage(["raid1", "far=raid0", "source=single"], NODES, REPLICAS, disk="ssd")

    assert {node: each.level for node, each in found.items()} == {"near": "raid1", "far": "raid0", "source": "single"}


def test_a_node_that_does_not_exist_is_refused(refused):
    """With the nearest that does."""
    assert "did you mean near?" in refused(parse_storage, ["neer=raid0"], NODES, REPLICAS).found


@pytest.mark.parametrize(("option", "name"), [("disk", "sata-7201"), ("backend", "btrf")])
def test_unknown_names_are_refused(refused, option, name):
    """Before the engine is asked for anything."""
    common = {"disk": "ssd", "disks": 0, "mib": 1024, "backend": "auto"} | {option: name}

    assert "did you mean" in refused(up.storage_of, "async", ["raid0"], **common).found


def test_machines_with_a_disk_of_their_own_get_no_other(refused):
    """Both would be called disk1."""
    common = {"disk": "ssd", "disks": 0, "mib": 1024, "backend": "auto"}

    assert "have their own disk" in refused(up.storage_of, "drbd", ["node1=single"], **common).found


# --- what the host can give -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "backend"), [(BTRFS_ONLY, "btrfs"), (WITH_MD, "md")])
def test_auto_takes_real_md_where_the_kernel_has_it(monkeypatch, words, backend):
    """And btrfs where it has not."""
    monkeypatch.setattr(storage_overlay, "said_by", lambda *_, **__: (0, " ".join(words)))

    assert storage_overlay.with_backend({"replica": Storage(level="raid0")})["replica"].backend == backend


def test_a_backend_that_the_host_cannot_give_says_what_its_kernel_lacks(monkeypatch, refused):
    """By name, and how to load it."""
    monkeypatch.setattr(storage_overlay, "said_by", lambda *_, **__: (0, " ".join(BTRFS_ONLY - {"btrfs"})))
    by_name = refused(storage_overlay.with_backend, {"replica": Storage(level="raid0", backend="md")})
    by_auto = refused(storage_overlay.with_backend, {"replica": Storage(level="raid0")})

    assert "md needs the file /proc/mdstat" in by_name.found and "modprobe md_mod" in by_name.next_step
    assert "btrfs needs the file system btrfs" in by_auto.found


def test_a_kernel_without_fuse_is_told_so():
    """Devices count as well."""
    backend = Backend("x", Needs(devices=["/dev/fuse"]), "btrfs", [], "fuse")

    assert storage_overlay.missing(backend, {"btrfs"}) == ["the device /dev/fuse"]


# --- the overlay ------------------------------------------------------------------------------------------------------


def overlay_of(backend, launcher=""):
    """Return the overlay of two nodes, as Compose reads it."""
    storages = {
        "near": Storage(level="raid0", disk="sata-7200", disks=3, backend=backend, launcher=launcher),
        "far": Storage(level="single", backend=backend, launcher=launcher),
    }
    return yaml.load(storage_overlay.overlay("lab-x", catalogue.compose_file("fanout"), storages), Loader)


@pytest.mark.parametrize("backend", ["btrfs", "vm"])
def test_an_overlay_extends_files_of_a_checkout_at_any_path(monkeypatch, tmp_path, backend):
    """A comma ends a value in YAML's braces, and a dollar sign would be a variable of Compose's."""
    odd = tmp_path / "It's a lab, $HOME: {é🐬} #1" / "storage"
    odd.parent.mkdir()
    odd.symlink_to(catalogue.STORAGE)
    monkeypatch.setattr(catalogue, "STORAGE", odd)

    found = [one["extends"]["file"] for one in overlay_of(backend)["services"].values() if "extends" in one]
    assert found and {file.rpartition("/")[0].replace("$$", "$") for file in found} == {str(odd)}
    assert all("$$HOME" in file for file in found)


@pytest.fixture(params=sorted({*catalogue.backends()} - {"vm"}))
def overlay(request):
    """Return the overlay and its backend: arrays of the engine's host."""
    return overlay_of(request.param), request.param


def test_each_disk_is_a_container_and_a_volume_of_its_own(overlay):
    """Named after their node, with the limits of the named disk."""
    file, _ = overlay
    limits = catalogue.disk("sata-7200").limits

    assert {"near-disk1", "near-disk2", "near-disk3", "far-disk1"} <= set(file["services"]) & set(file["volumes"])
    assert f"write_us={round(1e6 / limits.write_iops)}" in file["services"]["near-disk3"]["command"]


def test_the_node_starts_after_its_array_and_sees_a_mounted_directory(overlay):
    """No device, no capability: a volume that the engine mounts from the array's links."""
    file, backend = overlay
    node, volume = file["services"]["near"], file["volumes"]["near-data"]["driver_opts"]

    assert set(node) == {"volumes", "configs", "depends_on"}
    assert node["depends_on"] == {"near-array": {"condition": "service_healthy"}}
    assert volume["type"] == catalogue.backend(backend).filesystem
    assert volume["device"].startswith("/dev/replication-lab/lab-x/near")


def test_a_machine_is_the_node_and_is_started_by_the_launcher_that_was_chosen():
    """With its disks by name, and the array that is to be made of them; told by its label like any other."""
    file = overlay_of("vm", "uml")
    node = file["services"]["near"]

    assert {"near-disk1", "near-disk2", "near-disk3"} <= set(file["services"]) & set(file["volumes"])
    assert node["environment"] == {"LAB_DISKS": "near-disk1 near-disk2 near-disk3", "LAB_ARRAY": "raid0"}
    assert node["extends"]["service"] == "machine-uml"
    assert msgspec.json.decode(node["labels"][array.STORAGE], type=Storage).by == "vm (uml)"


def test_every_launcher_has_its_machine():
    """vm.yaml names each, so that none is chosen which Compose does not know."""
    services = yaml.safe_load((catalogue.STORAGE / "vm.yaml").read_text())["services"]

    assert set(services) == {f"machine-{launcher}" for launcher in vm.LAUNCHERS}


def test_a_machine_holds_no_other_server_than_mariadb(monkeypatch, refused):
    """Refused before anything starts."""
    monkeypatch.setattr(storage_overlay, "with_backend", lambda storage: storage)
    error = refused(up.placed_on, {"replica": Storage(level="raid0", backend="vm")}, "mysql-8.0")

    assert "mysql-8.0" in error.found and "mariadb" in error.expected


def test_what_an_array_is_can_be_read_back_from_its_label(overlay):
    """The label suffices for any process that finds the lab."""
    file, backend = overlay
    told = file["services"]["near-array"]["labels"][array.STORAGE]

    assert msgspec.json.decode(told, type=Storage).members == 3
    assert msgspec.json.decode(told, type=Storage).backend == backend


@pytest.mark.parametrize("name", ["_parts", *catalogue.backends()])
def test_only_the_array_has_power_over_devices_and_each_is_named(name):
    """Three capabilities and the numbers of the devices; nothing privileged, no device by default."""
    services = yaml.safe_load((catalogue.STORAGE / f"{name}.yaml").read_text())["services"]

    for service, found in services.items():
        assert found.get("cap_drop", ["ALL"]) == ["ALL"]
        added = ["SYS_ADMIN", "CHOWN", "DAC_OVERRIDE"] if (name, service) == ("_parts", "array") else []
        assert found.get("cap_add", []) == added
        rules = {rule.split()[1] for rule in found.get("device_cgroup_rules", [])}
        assert rules <= {"10:229", "10:237", "7:*", "9:*"}
        assert {"privileged", "pid", "ipc", "devices"}.isdisjoint(found)


def test_every_backend_can_be_chosen_by_auto():
    """None is forgotten in the order of preference."""
    assert set(storage_overlay.PREFERENCE) == set(catalogue.backends())


# --- changing and checking --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("write_iops=0", "write_iops of a disk is 0"),
        ("write_iops=-5", "write_iops of a disk is -5"),
        ("writes=5", "unknown limit 'writes'"),
        ("write_iops=many", "'many' is not a number"),
        ("write_cache=maybe", "write_cache=maybe"),
    ],
)
def test_a_limit_that_cannot_be_is_refused(monkeypatch, refused, text, found):
    """And the disk stays as it was."""

    class Untouched:
        def limits(self):
            return Limits(write_iops=100)

        def limit(self, limits):
            pytest.fail("the disk was changed")

    monkeypatch.setattr(array, "array", lambda lab, node: type("A", (), {"disk": lambda self, name: Untouched()})())

    lab = type("Lab", (), {"topology": catalogue.topology("async")})
    assert found in refused(disks.change_limits, lab, "replica", "disk1", [text]).found


@pytest.mark.parametrize(
    ("measured", "limit", "kept"),
    [(95, 100, True), (105, 100, True), (94, 100, False), (106, 100, False), (9, None, True)],
)
def test_a_limit_is_kept_within_five_percent(measured, limit, kept):
    """Slower is as wrong as faster; no limit is always kept."""
    assert array.within(measured, limit) is kept


class BusyThenQuiet:
    """An array whose disk is measured too slow a given number of times, and then right."""

    def __init__(self, busy):
        self.busy = busy

    def limits(self):
        return {"disk1": Limits(read_iops=80, write_iops=400)}

    def measure(self, times):
        self.busy -= 1
        return {"disk1": array.Measured("replica-disk1", 80, 200 if self.busy >= 0 else 399)}


@pytest.mark.parametrize(("busy", "ok"), [(0, True), (array.TRIES - 1, True), (array.TRIES, False)])
def test_a_busy_moment_is_measured_again_and_a_slow_disk_stays_slow(busy, ok):
    """Five times, each for longer; then it is not so."""
    [proof] = disks.kept_limits(BusyThenQuiet(busy))

    assert proof.ok is ok
    assert "limit 400" in proof.found


def test_a_disk_that_kept_its_limits_is_not_doubted_while_another_is_measured_again():
    """The second disk is always too fast; the first has a busy moment later."""
    rates = iter([80, 41, 41, 41, 41])

    class Two:
        def measure(self, times):
            return {"disk1": array.Measured("a", next(rates), 400), "disk2": array.Measured("b", 160, 400)}

    limits = Limits(read_iops=80, write_iops=400)
    found = array.measured(Two(), {"disk1": limits, "disk2": limits})

    assert {name: array.keeps(each, limits) for name, each in found.items()} == {"disk1": True, "disk2": False}


def test_the_disk_under_drbd_is_no_arrays(refused):
    """The error says how to make it fail."""
    lab = SimpleNamespace(name="lab-drbd", topology=catalogue.topology("drbd"), containers={})

    assert "./lab drill drbd --drill fail-disk" == refused(disks.array_of, lab, "node1").next_step


def test_what_a_disk_does_for_others_counts_as_well(fake_world):
    """fio has what a server leaves of a disk; the disk keeps its limit all the same."""
    lab = FakeLab(fake_world(), catalogue.topology("raid"), "mariadb")
    lab.arrays["single"].others = [40]
    [measured] = array.array(lab, "single").measure().values()

    assert measured.write_iops == pytest.approx(lab.arrays["single"].rate("write"), rel=0.02)


class UsedVolume:
    name = "lab-x_replica-data"
    attrs: ClassVar = {"Labels": {removal.labels.PROJECT: "lab-x"}}

    def remove(self, force):
        raise APIError("volume is in use - [abc]")


def used_by(monkeypatch, *projects):
    users = [SimpleNamespace(labels={removal.labels.PROJECT: project}) for project in projects]
    containers = SimpleNamespace(list=lambda **_options: users)
    monkeypatch.setattr(UsedVolume, "client", SimpleNamespace(containers=containers), raising=False)


def test_a_volume_in_use_is_named_with_who_uses_it(monkeypatch, refused):
    """A container that uses a lab's volume has to release it first."""
    used_by(monkeypatch, "shop")

    error = refused(removal.remove_volume, UsedVolume())

    assert (
        "lab-x_replica-data" in error.found and "docker ps --all --filter volume=lab-x_replica-data" in error.next_step
    )


@pytest.mark.parametrize("users", [("lab-x",), ()], ids=["created", "not yet listed"])
def test_a_volume_in_use_by_a_container_of_its_lab_is_not_called_foreign(monkeypatch, refused, users):
    """The engine takes the volumes of a container before it lists the container."""
    used_by(monkeypatch, *users)

    error = refused(removal.remove_volume, UsedVolume())

    assert isinstance(error, removal.InUse) and "in use by a container of the lab" in error.found


@pytest.mark.parametrize(("device", "mounted"), [("/dev/loop4", True), ("/dev/loop9", False), ("/dev/vda1", False)])
def test_only_a_device_of_the_array_makes_it_mounted(device, mounted):
    """The same kind of file system on another device is the host's own disk, or another lab's."""

    class Answering(LabOfNames):
        def run(self, service, *command):
            if service == "replica-array":
                return "/dev/loop4\n/dev/loop4\n/dev/loop6\n"
            return f"overlay / overlay rw 0 0\n{device} /var/lib/mysql btrfs rw 0 0\n"

    assert array.Array(Answering(), "replica", Storage(level="raid0", backend="btrfs")).is_mounted() is mounted
