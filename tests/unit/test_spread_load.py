"""Are the clients of a load shared among containers on several engines, merged, and proved not to be the bottleneck?"""

from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner
from replication_lab import cli
from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.site import Site
from replication_lab.model.lab.spread_load import MOST, SpreadLoad
from replication_lab.model.question.load import Moments
from replication_lab.workloads import inserts, spread
from replication_lab.workloads.spread import CpuGroup, CpuUse, Printed, Share
from replication_lab.world import catalogue
from replication_lab.world.docker import site_files

SEMISYNC, GALERA = (catalogue.topology(name) for name in ("semisync", "galera"))
DB2 = "tcp://10.1.0.2:2375"
TWO = SpreadLoad(("", DB2), "10.1.0.1")
# Two inserts of 2 and 3 ms from second 100 on, then one of 4 ms from second 100.001 on.
FIRST = "client 100.000000 100.005000 2000 3000\nends 2000 3000\n"
SECOND = "client 200.001000 200.005000 4000\nends 4000\nlost 1 200.002\n"


def test_other_engines_need_an_address_of_the_servers(refused):
    """Without one, clients there would have no way to them; several containers here need none."""
    assert SpreadLoad(("", "")).services() == {"load-1": Site(), "load-2": Site()}
    assert TWO.services() == {"load-1": Site(), "load-2": Site(DB2, "10.1.0.1")}
    for endpoints, address, found in (
        (("", DB2), "", "--load-sites names another engine, whose clients have no way to the servers"),
        (("", ""), "10.1.0.1", "--load-sites names no other"),
        (("", DB2), "0.0.0.0", "other machines cannot reach a site at 0.0.0.0"),
        (("", DB2), "db1", "db1 is not an IPv4 address"),
        (("",) * (MOST + 1), "", f"--load-sites names {MOST + 1} engines"),
    ):
        assert refused(SpreadLoad, endpoints, address).found == found


@pytest.mark.parametrize(
    "option",
    [
        ("--check", "--workload", "orders.sql"),
        ("--endpoint", "haproxy"),
        ("--load-command", "true"),
        ("a claim about the lag", "--claim", "lag[clients=4] <= 1"),
    ],
)
def test_what_cannot_be_spread_is_refused_before_anything_starts(option, tmp_path, monkeypatch):
    """A command of the user's and a checker run in one place; a proxy's port is on loopback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.sql").write_text(
        "SELECT value FROM foo WHERE id = {id:1..9};\n--\n"
        "UPDATE foo SET value = {v:1..2000000000} WHERE id = {id:1..9};\n"
    )
    words = option if option[0].startswith("--") else option[1:]
    ended = CliRunner().invoke(
        cli.cli, ["ask", "async", "--vary", "clients=2,4", "--load-sites", "here,here", *words], prog_name="lab"
    )

    assert str(ended.exception).startswith(f"{option[0]} with --load-sites\n"), ended.output


def test_each_container_is_a_service_and_the_servers_are_published_for_those_elsewhere():
    """Ports are any that are free: a question may have several labs."""
    written = yaml.safe_load(site_files.published(SEMISYNC, TWO.address, TWO))["services"]
    alone = yaml.safe_load(site_files.published(GALERA, "", SpreadLoad(("", ""))))["services"]

    assert written["load-2"]["image"] == "replication-lab/load" and written["load-2"]["cap_drop"] == ["ALL"]
    assert written["source"]["ports"] == ["10.1.0.1:23000-29999:3306"]
    assert sorted(alone) == ["load-1", "load-2"]


def test_every_container_has_clients_in_every_case():
    """Else the network of another machine would be in one case only, and be taken for the effect of the clients."""
    asked = ["ask", "async", "--vary", "clients=1,16", "--load-sites", "here,here"]
    refused = CliRunner().invoke(cli.cli, asked, prog_name="lab")

    assert str(refused.exception).startswith("--load-sites names 2 engines for 1 client\n"), refused.output


def share(name, clients, begin=100.0, ahead=0.0):
    return Share(SimpleNamespace(name=name), "source", 3306, clients, 7, begin=begin + ahead, ahead=ahead)


def test_latencies_of_all_containers_are_merged_on_one_clock():
    """The second machine's clock is 100 s ahead: its load ran at the same time as the first one's."""
    found = inserts.merged([Printed(FIRST, share("load-1", 1)), Printed(SECOND, share("load-2", 1, ahead=100.0))])

    assert sorted(found.latencies_ms) == [2, 3, 4] and found.commits == 3 and found.lost == 1
    assert found.throughput == pytest.approx(3 / 0.005)
    assert found.figures["latency_max_ms"] == 4 and found.figures["errors"] == pytest.approx(1 / 4)
    assert found.moments.begin == 100 and found.moments.end == pytest.approx(100.005)
    assert [round(at, 3) for at, _ in found.moments.commits] == [100.002, 100.005, 100.005]
    assert found.moments.lost == [pytest.approx(100.002)]
    assert found.proofs[0].doubt == (
        "the 2 containers of the load began when they were to: expected at most 5% of the load's time, 0.25 ms, "
        "found one began up to 1 ms from its time"
    )


def test_a_container_that_prints_no_times_is_no_part_of_a_load(refused):
    """It cannot be shown to have run at the same time as the others."""
    parts = [Printed(FIRST, share("load-1", 1)), Printed("client 100.0 100.1 2000\n", share("load-2", 1))]

    assert refused(inserts.merged, parts).found == "a container of the load printed no times"


@pytest.mark.parametrize(("late", "drift", "ok"), [(0.4, 0.0, True), (0.6, 0.0, False), (0.3, -0.3, False)])
def test_a_container_that_began_late_is_no_common_load(late, drift, ok):
    """Beside the late one the others would have been faster; it is a slow moment, so the measurement is repeated.

    A clock that moved during the load makes its beginning less certain.
    """
    moments = [Moments(100.0, 110.0, []), Moments(100.0 + late, 110.0, [])]
    proof = spread.begun_together(moments, [share("load-1", 1), share("load-2", 1, ahead=5.0)], [0.0, drift])

    assert proof.ok is ok and proof.slow is not ok


ALONE = (CpuGroup(("load-1",), 1), CpuGroup(("load-2",), 2))
BESIDE = (CpuGroup(("load-1", "source"), 1), CpuGroup(("load-2",), 2))


@pytest.mark.parametrize(
    ("used", "throttled", "groups", "ok", "said"),
    [
        ((0.2, 3.0), 0, ALONE, True, "load-1 with 8 clients 10%, with all on its CPUs 10%; load-2 with 7 clients 75%"),
        ((0.2, 3.4), 0, ALONE, False, "load-2 with 7 clients 85%"),
        (
            (0.2, 0.2),
            6,
            ALONE,
            False,
            "load-2 with 7 clients 5%, with all on its CPUs 5%, held back by a limit in 6 periods",
        ),
        ((0.2, 0.0), 0, ALONE, False, "load-2 with 7 clients 0%"),
        ((0.8, 3.0), 0, BESIDE, False, "load-1 with 8 clients 40%, with all on its CPUs 90%"),
    ],
    ids=["enough", "too little", "a limit", "not counted", "beside a server"],
)
def test_a_container_that_was_short_of_cpu_time_is_a_bottleneck(used, throttled, groups, ok, said):
    """Its clients measure their own wait; a limit that holds it back lets it use little."""
    before = {"load-1": CpuUse(5, 0), "load-2": CpuUse(1, 2), "source": CpuUse(9, 0)}
    after = {"load-1": CpuUse(5 + used[0], 0), "load-2": CpuUse(1 + used[1], 2 + throttled), "source": CpuUse(10, 0)}
    proof = spread.not_the_bottleneck([share("load-1", 8), share("load-2", 7)], before, after, groups, took=2.0)

    assert proof.ok is ok and said in proof.found and not proof.slow
    assert (proof.doubt is None) is ok


def test_a_client_uses_at_most_one_cpu():
    """Two clients that each fill one of 64 CPUs cannot do more."""
    after = {"load-1": CpuUse(3.6, 0)}
    proof = spread.not_the_bottleneck(
        [share("load-1", 2)], {"load-1": CpuUse(0, 0)}, after, [CpuGroup(("load-1",), 64)], took=2.0
    )

    assert not proof.ok and "load-1 with 2 clients 90%" in proof.found


def test_with_a_rate_the_containers_take_turns(monkeypatch):
    """All transactions together begin at even times, and none is planned twice."""
    lab = SimpleNamespace(name="no-lab", written_host="source")
    monkeypatch.setattr(spread.beside_nodes, "on_machine", lambda _site: SimpleNamespace(ahead=50.0))
    services = [SimpleNamespace(name=f"load-{number}", site="") for number in (1, 2, 3)]
    shares = spread._shares(lab, services, 4, 7, 100.0, 10)

    assert [each.events for each in shares] == [4, 3, 3] and [each.clients for each in shares] == [2, 1, 1]
    assert [each.rate for each in shares] == [pytest.approx(100 / 3)] * 3
    assert [each.begin - shares[0].begin for each in shares] == [0, pytest.approx(0.01), pytest.approx(0.02)]
    assert len({each.seed for each in shares}) == 3


def test_a_container_that_does_not_reach_the_server_ends_the_run_before_it_is_measured(refused, monkeypatch):
    """The error names the engine, the address and the port; a server that is not published there is told, too."""

    def run(*_words):
        raise LabError("`mariadb` in load-1 ended with status 1: Can't connect to server")

    bindings = [{"HostIp": "127.0.0.1", "HostPort": "23001"}]
    services = {
        "load-1": SimpleNamespace(name="load-1", site=DB2, run=run),
        "source": SimpleNamespace(bindings=lambda _port: bindings),
    }
    lab = SimpleNamespace(name="run-a", written_host="source", service=services.get)
    monkeypatch.setattr(spread.sites, "of", lambda _project: {"load-1": Site(DB2, "10.1.0.1")})
    monkeypatch.setattr(spread.beside_nodes, "on_machine", lambda _site: None)

    assert refused(spread.refuse_unconnected, lab).found == "source of run-a is not published on 10.1.0.1"
    bindings.append({"HostIp": "10.1.0.1", "HostPort": "23002"})
    found = refused(spread.refuse_unconnected, lab).found
    assert found.startswith(f"load-1 at {DB2} does not reach source at 10.1.0.1:23002: "), found
