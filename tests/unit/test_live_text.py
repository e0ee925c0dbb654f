"""Does the terminal show what the page shows, and does Prometheus get the same figures?"""

import asyncio
import io
import sys

import msgspec
import pytest
from replication_lab.cli.live import line, screen
from replication_lab.live.prometheus import endpoint, text_of
from replication_lab.model.live.view import Level
from rich.console import Console

from tests.fakes.asgi import ask
from tests.fakes.live import LINK, FakeLive


@pytest.fixture
def seen():
    """Return a scripted lab after three seconds at 200 ms, its hello and its state."""
    lab = FakeLive()
    lab.change_link(LINK, "200ms")
    for _ in range(3):
        state = lab.tick()
    return lab, lab.hello(), state


def shown(hello, state):
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(screen(hello, state))
    return console.export_text()


def test_the_terminal_shows_nodes_links_rate_and_ledger(seen):
    """With what acts now, and the sentences that explain it."""
    lab, hello, _ = seen
    lab.act_on_node("source", "kill", None)
    found = shown(hello, lab.tick())

    assert all(
        part in found
        for part in (
            "lab-semisync",
            "source ←",
            "does not answer",
            "200ms",
            "verified",
            "4 clients",
            "kill source",
            "Each commit",
        )
    )


def test_a_condition_that_was_not_seen_is_told(seen):
    """With what was found instead."""
    _, hello, state = seen
    unseen = msgspec.structs.replace(state.links[0], seen=False, says="round trip 85.3 ms")
    found = shown(hello, msgspec.structs.replace(state, links=[unseen]))

    assert "NO EFFECT SEEN: round trip 85.3 ms" in found


def test_a_line_has_the_rate_beside_the_law(seen):
    """And the state of each node and the round trip of each link."""
    found = line(seen[2])

    assert "ceiling 19." in found and "semi-sync ON" in found and f"{LINK} 20" in found


def test_prometheus_gets_the_figures(seen):
    """Each with its help and its type; an unknown figure is left out instead of being zero."""
    _, hello, state = seen
    text = text_of(hello, state)

    assert 'lab_info{lab="lab-semisync",topology="semisync",engine="mariadb"} 1\n' in text
    assert f'lab_link_round_trip_seconds{{link="{LINK}"}} 0.20' in text
    assert 'lab_node_state{node="source",state="semi-sync ON"} 2' in text
    assert f'lab_fault_active{{fault="{LINK} 200ms"}} 1' in text
    assert "lab_ledger_lost_rows" not in text
    assert all(each.startswith(("# HELP ", "# TYPE ", "lab_")) for each in text.splitlines())
    helped = {each.split()[2] for each in text.splitlines() if each.startswith("# TYPE")}
    assert {each.split("{")[0].split(" ")[0] for each in text.splitlines() if each.startswith("lab_")} == helped


def test_a_fault_whose_effect_was_not_seen_is_not_said_to_act(seen):
    """Sabotage: neither to Prometheus nor in the terminal."""
    _, hello, state = seen
    unseen = msgspec.structs.replace(state, spans=[msgspec.structs.replace(each, seen=False) for each in state.spans])

    assert "lab_fault_active" in text_of(hello, state) and "acting: " in shown(hello, state)
    assert "lab_fault_active" not in text_of(hello, unseen) and "acting: " not in shown(hello, unseen)


def test_a_name_with_quotes_does_not_end_a_label(seen):
    """A state may hold an error message of a server."""
    _, hello, state = seen
    node = msgspec.structs.replace(state.nodes[0], state='refused "x"\\\n', level=Level.BAD)

    assert r'state="refused \"x\"\\\n"' in text_of(hello, msgspec.structs.replace(state, nodes=[node]))


def test_the_endpoint_answers_this_machine_only():
    """It needs no token, because nothing can be changed there."""
    app = endpoint(lambda: "lab_info 1\n")

    assert asyncio.run(ask(app, "GET", "/metrics")).body == b"lab_info 1\n"
    assert asyncio.run(ask(app, "GET", "/metrics", headers={"host": "evil.example"})).status == 400
    assert asyncio.run(ask(app, "POST", "/metrics")).status == 405


@pytest.mark.parametrize("command", [("live",), ("watch", "--format", "prometheus")])
def test_without_its_libraries_the_page_says_what_to_install(lab, monkeypatch, command):
    """Before a lab is started."""
    monkeypatch.delitem(sys.modules, "replication_lab.live.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    status, _, told = lab(*command)

    assert status == 2
    assert (
        "the extra [live], which is not installed" in told and "pip install 'PATH-OF-CHECKOUT-OR-WHEEL[live]'" in told
    )
