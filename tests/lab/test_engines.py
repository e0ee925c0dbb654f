"""Does every engine come up, replicate, and do semi-sync where it can?"""

from replication_lab.world import catalogue, signals
from replication_lab.world.docker import images, project

# What `make test` starts; the others are in its other tests, or are tried with --lab-engine all.
QUICK = (("mysql-5.5", "semisync"),)


def pytest_generate_tests(metafunc):
    """Make one test for each engine that is built here, in each of these topologies that its features allow."""
    if "topology" in metafunc.fixturenames:
        every = metafunc.config.getoption("lab_engine") == "all"
        names = [name for name, each in catalogue.engines().items() if not each.image]
        all_ = [(e, t) for e in names for t in ("single", "async", "semisync") if t in catalogue.topologies_for(e)]
        metafunc.parametrize(("engine", "topology"), all_ if every else QUICK)


def test_an_engine_comes_up_and_is_proved(new_lab, engine, topology):
    """`labs.up` proves links, semi-sync by timed commits, and a row that arrives; the version is the promised one."""
    lab = new_lab(topology, engine)
    try:
        version = lab.node(lab.topology.source.name).server().version()
        features = lab.features
    finally:
        with signals.signals_held():
            lab.down()

    promised = catalogue.engines()[engine]
    assert version.startswith(promised.version)
    # A cluster's features are those of a server that is a member of one.
    assert promised.features - {"galera", "group", "drbd"} == features


def test_semi_sync_of_a_build_without_it_is_refused_before_anything_starts(command):
    """The reason is told, and the engines that have it."""
    answer = command("up", "semisync", "--engine", "mysql-5.7", "--lab", "test-refused")

    assert answer.returncode == 2
    assert "in this version, semi-sync is a plugin, and its artifact contains no plugins" in answer.stderr
    assert "one of mariadb, mariadb-10.11, mariadb-10.11-galera, mysql" in answer.stderr
    assert "test-refused" not in project.all_labs()


def test_engines_are_listed_with_their_images(command):
    """`lab list engines` knows that this module's image is built."""
    images.ensure(["mysql-5.5"])
    (line,) = [line for line in command("list", "engines").stdout.splitlines() if line.startswith("mysql-5.5 ")]

    assert "5.5.34" in line and line.rstrip().endswith("built")
