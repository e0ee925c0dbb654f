"""The virtual machine: does it boot, answer, keep what it must and lose no more than it may, with each launcher?"""

import functools
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pymysql
import pytest
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.storage import DATA

from tests.images.conftest import LABEL, PATIENCE_S, until
from tests.images.guest import Answer
from tests.images.yard import METADATA, MIB, SPINDLE, Pair, ask, disk_of, opened_yard


@pytest.fixture(scope="module")
def yard(client):
    with opened_yard(client) as yard:
        yield yard


@pytest.fixture(scope="module")
def pair_of(yard):
    """Start each launcher's machines, which boot while the first tests run."""
    return functools.cache(functools.partial(Pair, yard))


# QEMU without KVM takes minutes for what user-mode Linux does in seconds; that it boots, a test of its own tells.
@pytest.fixture(scope="module", params=["uml", pytest.param("tcg", marks=pytest.mark.long)])
def pair(request, pair_of):
    return pair_of(request.param)


@pytest.fixture
def bare(pair):
    pair.bare.wait_until_healthy()
    return pair.bare


@pytest.fixture
def node(pair):
    pair.node.wait_until_healthy()
    return pair.node


@pytest.fixture
def no_array(bare):
    """Return a machine without an array, whatever the previous test left."""
    bare.run("array", "stop")
    return bare


# --- the agent --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 42, 127])
def test_the_agent_tells_what_a_command_ended_with(bare, code):
    """Exit codes arrive; output and errors arrive apart."""
    answer = bare.attempt("bash", "-c", f"echo out; echo err >&2; exit {code}")

    assert Answer(code, "out\n", "err\n") == answer


def test_words_and_bytes_arrive_as_they_are(bare):
    """No shell takes the words of a command apart, and a file of any bytes is written whole."""
    content = bytes(range(256)) * 4096
    bare.put("/tmp/a file", content)

    assert "a b|it's|$HOME|*|" == bare.run("printf", "%s|", "a b", "it's", "$HOME", "*")
    assert str(len(content)) == bare.run("stat", "--format=%s", "/tmp/a file").strip()
    assert "0\n" == bare.run(
        "bash", "-c", "cat '/tmp/a file' '/tmp/a file' | tail -c +1048577 | cmp - '/tmp/a file'; echo $?"
    )


def test_a_command_that_fails_is_an_error_in_its_own_words(bare):
    """The error names the command, the exit code and what was said."""
    with pytest.raises(LabError) as told:
        bare.run("ls", "/nowhere")

    assert "`ls /nowhere`" in told.value.found and "ended with 2" in told.value.found
    assert "No such file" in told.value.found


def test_commands_run_at_the_same_time(bare):
    """One that lasts does not keep others waiting."""
    with ThreadPoolExecutor() as together:
        waits = together.submit(bare.attempt, "bash", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; echo gone")
        bare.run("touch", "/tmp/go")

        assert "gone\n" == waits.result(timeout=PATIENCE_S).out


def test_what_is_sent_to_the_machine_cannot_reach_its_agent(pair, node, yard):
    """A connection from the network reaches the server, not a root shell."""
    code = yard.client.containers.run(
        SPINDLE,
        ["-c", f"timeout 3 bash -c '</dev/tcp/{node.name}/22'; echo $?"],
        entrypoint="bash",
        network=yard.name,
        remove=True,
        labels={LABEL: "1"},
    )

    assert b"1" == code.strip()


@pytest.mark.parametrize("module", ["drbd", "raid10", "dm-delay", "dm-flakey", "loop"])
def test_the_guests_kernel_has(bare, module):
    """What arrays and replicated disks are made of, for both kernels."""
    assert 0 == bare.attempt("modprobe", module).code


@pytest.mark.long
def test_a_guest_that_falls_silent_is_described(yard):
    """Its log says how busy it is, and what each of its tasks waits for; before, nothing is said."""
    machine = yard.machine("uml", server=False)
    machine.wait_until_answers()
    until(lambda: machine.container.exec_run(["test", "-e", "/tmp/connected"]).exit_code == 0, "the shared connection")
    assert "has not answered" not in machine.console()
    machine.run("bash", "-c", "setsid pkill -STOP dropbear </dev/null &>/dev/null &")
    until(lambda: "has not answered" in machine.console(), "the description")

    assert re.search(r"in 0.3 s its kernel used 0\.\d+ s of CPU and its \d+ programs 0\.\d+ s", machine.console())
    assert re.search(r"task:dropbear +state:T", machine.console())
    with pytest.raises(LabError) as told:
        machine.attempt("true")
    assert "its agent does not answer" in told.value.found


def test_a_guest_looks_for_packets_also_when_none_was_announced(yard):
    """A tap device announces one before it can be read; without another signal it would lie there until the next."""
    machine = yard.machine("uml", server=False)
    machine.wait_until_answers()

    def look(command):
        found = machine.container.exec_run(["sh", "-c", command])
        assert found.exit_code == 0, found.output
        return found.output.decode()

    # As at its end: nobody asks a guest that does not answer for a description, which would signal it as well.
    look("touch /tmp/told-to-end && ip link set tap0 down && kill -STOP $(cat /tmp/guest.pid)")
    pending = 'sed -n "s/^ShdPnd:[[:space:]]*//p" /proc/$(cat /tmp/guest.pid)/status'
    until(lambda: int(look(pending), 16) & 1 << signal.SIGIO - 1, "a signal to the guest's kernel without a packet")


# --- arrays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "members"), [("raid0", 2), ("raid1", 1), ("single", 1)])
def test_an_array_has_the_size_of(no_array, level, members):
    """RAID0 adds its disks up, RAID1 and a single disk have the size of one; less what md keeps for itself."""
    no_array.run("array", "create", level, "1", *(["2"] if level != "single" else []))
    array = no_array.array()

    assert (level, 0) == (array.level, array.degraded)
    assert members * (64 * MIB - METADATA) <= array.size <= members * 64 * MIB
    assert str(array.size) == no_array.run("blockdev", "--getsize64", array.mounted).strip()


def test_raid0_with_a_failed_disk_gives_errors_and_not_old_data(pair, no_array):
    """md still calls the array active; a reader of the data gets the error."""
    no_array.run("array", "create", "raid0", "1", "2")
    no_array.run("dd", "if=/dev/urandom", f"of={DATA}/data", "bs=1M", "count=16", "conv=fsync")
    pair.bare_disks[1].fail()
    answer = no_array.attempt("dd", f"if={DATA}/data", "of=/dev/null", "bs=1M", "iflag=direct")
    pair.bare_disks[1].heal()

    assert answer.code == 1
    assert "Input/output error" in answer.err


def test_disks_that_hold_another_array_are_not_taken_for_the_one_asked_for(no_array):
    """A stale array is named, and is not mounted."""
    no_array.run("array", "create", "raid1", "1", "2")
    no_array.run("array", "stop")
    answer = no_array.attempt("array", "start", "raid0", "1", "2")

    assert answer.code == 1
    assert "the disks hold raid1; expected raid0" in answer.err
    assert no_array.attempt("mountpoint", DATA).code != 0


def test_a_mount_that_came_over_the_array_is_noticed(no_array):
    """`array check` compares what is mounted with what was made, and a server does not start on the wrong one."""
    no_array.run("array", "create", "single", "1")
    no_array.run("array", "check")
    no_array.run("mount", "-t", "tmpfs", "over", DATA)
    checked = no_array.attempt("array", "check")
    no_array.run("umount", DATA)

    assert checked.code == 1
    assert f"over is mounted at {DATA}; expected the array, /dev/nbd1" in checked.err


def test_a_server_does_not_start_without_its_disk(no_array):
    """It would serve from the root disk, and everything measured would be wrong."""
    answer = no_array.attempt("server", "start")

    assert answer.code == 1
    assert f"nothing is mounted at {DATA}" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "raid1", "1"), "raid1 of 1 disk(s); expected 2 or more"),
        (("create", "raid7", "1", "2"), "level 'raid7'; expected raid0, raid1 or single"),
        (("create", "raid1", "1", "9"), "no disk '9' is attached"),
        (("status",), "there is no array"),
        (("explode",), "found 'explode'; expected create"),
    ],
)
def test_an_array_is_refused(no_array, words, message):
    """In words that say what was found and what was expected."""
    answer = no_array.attempt("array", *words)

    assert answer.code == 1
    assert message in answer.err


@pytest.mark.long
def test_a_write_of_more_than_the_memory_arrives(yard):
    """Its packets get memory while everything else waits for it: no allocation fails, and no disk is lost."""
    disk = yard.disk(size=512 * MIB)
    machine = yard.machine("uml", [disk], "single", server=False, LAB_MEMORY="160")
    machine.wait_until_healthy()
    machine.run("bash", "-c", f"head -c 400M /dev/zero >{DATA}/large; sync {DATA}/large")

    assert disk.stats().written_bytes > 400 * MIB
    assert "failure" not in machine.run("dmesg")


# --- the server on RAID1 ----------------------------------------------------------------------------------------------


def test_the_server_is_the_one_that_was_asked_for(node):
    """Its flags, its password and its port are those of a database container; its data lie on the array."""
    assert ((7, 32 * MIB),) == ask(node, "SELECT @@server_id, @@innodb_buffer_pool_size")
    assert ("raid1", "/dev/md0") == (node.array().level, node.array().mounted)
    assert "serving" == node.health().out.strip()


def test_the_agent_answers_while_the_disks_of_the_server_hang(pair, node):
    """The way in does not depend on what is being broken."""
    for disk in pair.disks:
        disk.container.pause()
    writing = threading.Thread(target=ask, args=(node, "CREATE TABLE hung (id INT)"))
    try:
        writing.start()
        said = node.run("echo", "here")
        hung = writing.is_alive()
    finally:
        for disk in pair.disks:
            disk.container.unpause()
        writing.join(timeout=PATIENCE_S)

    assert ("here\n", True) == (said, hung)
    assert () == ask(node, "SELECT * FROM hung")


@pytest.mark.long
def test_raid1_goes_on_without_a_disk_and_takes_it_back(pair, node):
    """A member that answers with errors is failed by md; healed and added it is rebuilt."""
    ask(node, "CREATE OR REPLACE TABLE kept SELECT seq FROM seq_1_to_100")
    pair.disks[1].fail()
    ask(node, "INSERT INTO kept VALUES (101)")
    until(lambda: node.array().degraded == 1, "md to fail the disk")
    without = node.array().disks
    pair.disks[1].heal()
    node.run("array", "remove", "2")
    node.run("array", "add", "2")
    until(lambda: node.array().degraded == 0, "the rebuild")

    assert ("in_sync", "faulty") == (without[1], without[2])
    assert {1: "in_sync", 2: "in_sync"} == node.array().disks
    assert ((101,),) == ask(node, "SELECT COUNT(*) FROM kept")


@pytest.mark.long
def test_a_clean_stop_keeps_everything(pair, node):
    """SIGTERM ends server, array and guest in order, with exit code 0; the next start finds the rows."""
    ask(node, "CREATE OR REPLACE TABLE stopped SELECT seq FROM seq_1_to_1000")
    node.stop()
    said = node.console()
    node.start()
    node.wait_until_healthy()

    assert "Shutdown complete" in said and "the guest has ended (0)" in said
    assert ((1000,),) == ask(node, "SELECT COUNT(*) FROM stopped")


@pytest.mark.long
def test_a_kernel_that_panics_before_it_serves_is_started_again_and_one_that_has_served_is_not(yard):
    """What used the second one must notice that its machine is gone."""
    machine = yard.machine("uml")
    panic = ["guest", "sh", "-c", "echo c >/proc/sysrq-trigger"]
    machine.wait_until_answers()
    machine.container.exec_run(panic, detach=True)
    until(lambda: "starting it once more" in machine.console(), "the panic")
    machine.wait_until_healthy()
    until(lambda: machine.container.exec_run(["test", "-e", "/machine/served"]).exit_code == 0, "its health check")
    machine.container.exec_run(panic, detach=True)
    until(lambda: machine.container.wait()["StatusCode"] == 134, "the container's end")

    said = machine.console()
    assert said.count("Kernel panic") == 2
    assert said.count("starting the guest") == 2


@pytest.mark.parametrize("launcher", ["uml", pytest.param("tcg", marks=pytest.mark.long)])
def test_a_machine_that_resets_itself_is_off(yard, launcher):
    """As a cluster's fence relies on it: it does not boot again behind the container's back."""
    machine = yard.machine(launcher, server=False)
    machine.wait_until_answers()
    machine.container.exec_run(["guest", "sh", "-c", "echo b >/proc/sysrq-trigger"], detach=True)
    until(lambda: not machine.runs(), "its end")

    assert machine.console().count("starting the guest") == 1


@pytest.mark.long
def test_a_power_cut_keeps_what_was_committed(pair, node):
    """The machine and both disks lose their power in the middle of writes: each acknowledged row is there."""
    ask(node, "CREATE OR REPLACE TABLE cut (id INT PRIMARY KEY)")
    acknowledged = []

    def write():
        try:
            for number in range(100_000):
                ask(node, f"INSERT INTO cut VALUES ({number})")
                acknowledged.append(number)
        except (pymysql.err.Error, OSError, KeyError, IndexError):
            return

    writing = threading.Thread(target=write)
    writing.start()
    until(lambda: len(acknowledged) > 20, "some rows")
    node.power_cut()
    for disk in pair.disks:
        disk.power_cut()
        disk.container.start()
    writing.join(timeout=PATIENCE_S)
    node.start()
    node.wait_until_healthy()

    found = {number for (number,) in ask(node, "SELECT id FROM cut")}
    assert set(acknowledged) <= found
    # One may have been committed whose acknowledgement did not arrive.
    assert len(found) <= len(acknowledged) + 1


# --- ends -------------------------------------------------------------------------------------------------------------


def test_a_power_cut_takes_what_was_not_flushed(pair, bare):
    """A block that was written and not flushed is in the disk's volatile cache: gone. Flushed ones are there."""
    bare.run("array", "stop")
    for block, flush in ((3, "fsync"), (5, "notrunc")):
        bare.run(
            "bash",
            "-c",
            f"head -c 4096 /dev/zero | tr '\\0' X | dd of=/dev/disk/lab/1 bs=4096 seek={block} oflag=direct "
            f"iflag=fullblock conv={flush} status=none",
        )
    bare.power_cut()
    disk = pair.bare_disks[0]
    disk.power_cut()
    disk.container.start()
    until(lambda: answers(disk), "the disk to answer")
    with disk_of(disk) as nbd:
        flushed, unflushed = nbd.read(3 * 4096, 4096), nbd.read(5 * 4096, 4096)

    assert b"X" * 4096 == flushed
    assert b"X" * 4096 != unflushed


def answers(disk):
    try:
        return disk.settings()
    except LabError:
        return None
