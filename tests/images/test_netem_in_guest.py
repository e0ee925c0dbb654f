"""Does netem do what the lab says, where a kernel has it: as beside containers, in a guest on any host?

Two namespaces of the guest stand for two containers; numbered datagrams tell what arrives, and in which order.
"""

from types import SimpleNamespace

import pytest
from replication_lab.faults.link_proof import realised_packets
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.condition import parse_condition
from replication_lab.world.packets.namespace import Refused
from replication_lab.world.packets.netem import Sender, Told, refuse_unable

from tests.images.yard import opened_yard

PORT = 21002
MATCHES = tuple(f"match ip protocol {number} 0xff match ip dport {PORT} 0xffff" for number in (6, 17))
BOTH = parse_condition("duplicate=5%,up+reorder=5%,up").toxic()
TWICE, LATE = BOTH.of_packets
NUMBERED = 2000

WIRE = """
ip netns add sender && ip netns add receiver
ip netns exec sender ip link add eth0 type veth peer name eth0 netns receiver
ip netns exec sender ip address add 10.9.0.1/24 dev eth0
ip netns exec receiver ip address add 10.9.0.2/24 dev eth0
for each in sender receiver; do ip netns exec $each ip link set eth0 up && ip netns exec $each ip link set lo up; done
"""
# Prints how many datagrams arrived, how many of them for the second time, and how many after one with a higher number.
RECEIVE = """
perl -MSocket -e '
socket(S, PF_INET, SOCK_DGRAM, 0); setsockopt(S, SOL_SOCKET, 33, pack("i", 1 << 23));
bind(S, sockaddr_in(PORT, INADDR_ANY)) or die; open(F, ">", "/run/receives");
while (1) {
    my $ready = ""; vec($ready, fileno(S), 1) = 1; last unless select($ready, undef, undef, $all ? 2 : 60);
    recv(S, my $number, 64, 0); $all++; if ($seen{int $number}++) { $twice++; next }
    if ($number < $last) { $late++ } else { $last = $number }
}
printf "%d %d %d", $all, $twice, $late'
"""


# Another kernel, on an emulated processor.
@pytest.fixture(scope="module", params=["uml", pytest.param("tcg", marks=pytest.mark.long)])
def guest(client, request):
    with opened_yard(client) as yard:
        machine = yard.machine(request.param, server=False)
        machine.wait_until_healthy()
        yield machine


class Inside:
    """The sender's namespace in the guest."""

    def __init__(self, guest):
        self.guest = guest

    def run(self, script):
        answer = self.guest.attempt("ip", "netns", "exec", "sender", "bash", "-c", script)
        if answer.code:
            raise Refused(answer.err or answer.out)
        return answer.out

    run_if_used = run


@pytest.fixture
def line(guest):
    """Yield a link as the proofs see it, of two namespaces that are connected."""
    guest.run("bash", "-c", WIRE)
    sender = Sender(Inside(guest), "a-b", "upstream", lambda: Told(MATCHES, PORT))
    yield SimpleNamespace(
        sender=sender, packets=sender.packets, send_packets=lambda _, count: sender.burst(count), guest=guest
    )
    guest.run("bash", "-c", "ip netns delete sender; ip netns delete receiver; rm -f /run/lab-netem")


def received(line, count=NUMBERED):
    """Return (all, twice, late) of so many numbered datagrams that are sent to the other namespace."""
    receive = f"ip netns exec receiver {RECEIVE.replace('PORT', str(PORT)).strip()}"
    send = f"exec 3>/dev/udp/10.9.0.2/{PORT}; for ((n = 1; n <= {count}; n++)); do echo $n >&3; done"
    script = f"rm -f /run/receives; {receive} & until [[ -e /run/receives ]]; do :; done\n"
    script += f"ip netns exec sender bash -c '{send}'; wait"
    return tuple(map(int, line.guest.run("bash", "-c", script).split()))


@pytest.mark.long
def test_without_netem_every_datagram_arrives_once_and_in_order(line):
    """So what follows is netem's."""
    assert received(line) == (NUMBERED, 0, 0)


def test_what_is_counted_as_duplicated_arrives_twice(line):
    """To the packet: the receiver has what was sent, and as many more as the sender counts."""
    line.sender.put(TWICE)
    all_, twice, late = received(line)
    counted = line.packets(TWICE)

    assert (counted.seen, counted.hit) == (NUMBERED, twice) and all_ == NUMBERED + twice
    assert counted.why_not(5, TWICE.type) == "" and late == 0


@pytest.mark.long
def test_what_is_counted_as_late_is_overtaken(line):
    """Each late one arrives after later ones, except where the end of the load follows it."""
    line.sender.put(LATE)
    all_, twice, late = received(line)
    counted = line.packets(LATE)

    assert (all_, twice, counted.seen) == (NUMBERED, 0, NUMBERED)
    assert 0.8 * counted.hit <= late <= counted.hit and counted.why_not(5, LATE.type) == ""


@pytest.mark.long
def test_both_are_proved_together_and_leave_nothing(line):
    """The lab's own datagrams reach nobody; afterwards the device has its own queue again."""
    for body in BOTH.of_packets:
        line.sender.put(body)
    said, proved = realised_packets(BOTH, line)

    assert proved, said
    assert line.sender.bodies() == [(TWICE, True), (LATE, True)]
    for body in BOTH.of_packets:
        line.sender.remove(body.name)
    left = line.sender.namespace.run(
        "tc qdisc show dev eth0; tc filter show dev eth0; ls /run/lab-netem 2>/dev/null; true"
    )
    assert left.split()[1] == "noqueue" and len(left.splitlines()) == 1


@pytest.mark.parametrize(
    ("done", "doubts"),
    [
        pytest.param(
            "tc qdisc change dev eth0 parent 4c:2 netem limit 10000 duplicate 0% delay 10ms reorder 95%",
            ["0 % duplicated"],
            marks=pytest.mark.long,
        ),
        ("tc qdisc change dev eth0 parent 4c:2 netem limit 10000 duplicate 5% delay 10ms reorder 50%", ["not 5 %"]),
        pytest.param(
            "tc qdisc delete dev eth0 parent 4c:2",
            ["that duplicates packets was removed", "that reorders packets was"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "tc qdisc delete dev eth0 root",
            ["that duplicates packets was removed", "that reorders packets was"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "tc qdisc delete dev eth0 clsact",
            ["that duplicates packets was removed", "that reorders packets was"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "tc filter delete dev eth0 parent 4c: pref 2",
            ["that duplicates packets was removed"],
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_is_changed_behind_the_labs_back_is_seen(line, done, doubts):
    """Sabotage: another share, or a queue or a filter that is gone."""
    for body in BOTH.of_packets:
        line.sender.put(body)
    line.sender.namespace.run(done)
    said, proved = realised_packets(BOTH, line)

    assert not proved
    for doubt in doubts:
        assert doubt in said


def test_a_host_without_netem_is_refused_by_name_and_release(client):
    """Tried on this host; one that has it passes."""
    release = client.info()["KernelVersion"]
    said = trial()

    assert said == "" or f"the kernel {release} lacks sch_netem (CONFIG_NET_SCH_NETEM)" in said


def trial():
    try:
        refuse_unable([BOTH])
    except LabError as error:
        return error.found
    return ""
