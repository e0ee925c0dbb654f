"""Does a site whose engine takes only clients with a certificate work by the Docker context that has it?"""

import json
import subprocess

import pytest
from replication_lab.world.clock import wait_until
from replication_lab.world.docker import images

from tests.lab.conftest import things_of
from tests.lab.engine_elsewhere import MISSING, engine_elsewhere

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"an engine in a network namespace needs {MISSING}"),
]


def test_a_site_by_a_context_with_certificates_is_used_and_without_it_refused(command, name, built, tmp_path):
    """Docker's client and the SDK both show the certificate; every command finds it again by the endpoint."""
    images.ensure(["clients"])
    needed = ("toxiproxy", "mariadb", "clients")
    with engine_elsewhere(*(f"replication-lab/{each}" for each in needed), with_tls=True) as elsewhere:
        configured = {"DOCKER_CONFIG": str(tmp_path)}
        given = (f"host={elsewhere.host}", f"ca={elsewhere.folder}/ca.pem", f"cert={elsewhere.folder}/client-cert.pem")
        context = ",".join([*given, f"key={elsewhere.folder}/client-key.pem"])
        made = ["docker", "--config", str(tmp_path), "context", "create", "db2", "--docker", context]
        subprocess.run(made, check=True, capture_output=True)
        addresses = (f"replica={elsewhere.machine}", f"source={elsewhere.neighbour}")
        at = [word for address in addresses for word in ("--site-address", address)]

        up = command("up", "async", "--lab", name, "--site", "replica=db2", *at, **configured)
        asked = command("sql", "replica", "-e", "SELECT @@server_id", "--lab", name, **configured)
        status = command("status", "--lab", name, "--json", **configured)
        down = command("down", "--lab", name, **configured)
        wait_until(lambda: things_of(name) == elsewhere.things() == [], "nothing to be left")
        without = command("up", "async", "--lab", name, "--site", f"replica={elsewhere.host}", *at)

    assert up.returncode == 0 and "a real network" in up.stderr, up.stdout + up.stderr
    assert asked.stdout.split()[-1] == "2", asked.stderr
    assert [node["site"] for node in json.loads(status.stdout)[0]["nodes"]] == ["", elsewhere.host]
    assert down.returncode == 0, down.stderr
    assert without.returncode == 2 and f"the site {elsewhere.host} does not answer" in without.stderr
