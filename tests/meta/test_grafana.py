"""Does the dashboard for Grafana ask only for figures that the lab's metrics have?"""

import json

from replication_lab.live.prometheus import text_of
from replication_lab.world import catalogue

from tests.fakes.live import LINK, FakeLive
from tests.unit.compose_files import read

FOLDER = catalogue.ROOT / "docs" / "grafana"


def test_the_dashboard_asks_for_metrics_that_there_are():
    """A renamed metric would be an empty panel; faults are annotations."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    asked = {target["expr"] for panel in dashboard["panels"] for target in panel["targets"]}
    annotations = {each["expr"] for each in dashboard["annotations"]["list"]}
    lab = FakeLive()
    lab.tick()
    lab.check_ledger()
    lab.change_link(LINK, "200ms")
    known = {line.split()[2] for line in text_of(lab.hello(), lab.tick()).splitlines() if line.startswith("# TYPE")}

    assert asked | annotations <= known
    assert annotations == {"lab_fault_active"}


def test_its_services_are_started_by_their_profile_only_and_listen_on_loopback():
    """Each waits for the profile, and is told an address of this machine."""
    services = read(FOLDER / "compose.yaml")["services"]

    assert all(each["profiles"] == ["grafana"] for each in services.values())
    assert all("127.0.0.1" in str(each.get("command", each.get("environment"))) for each in services.values())
