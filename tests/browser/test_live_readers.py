"""Can everybody use the page: in dark and light, on a phone, by keyboard and screen reader?"""

from itertools import combinations

import pytest
from replication_lab.world import catalogue
from selenium.webdriver.common.keys import Keys

from tests.fakes.live import LINK

pytestmark = pytest.mark.long
FOCUS = """
  const at = document.activeElement;
  const name = at.getAttribute('aria-label') ?? (at.getAttribute('role') || at.id);
  return [name, getComputedStyle(at).outlineStyle];
"""
# The sizes and colours in which everything must be usable.
LOOKS = {
    "dark": {"dark": True},
    "light": {"dark": False},
    "phone": {"width": 360, "height": 740, "dark": False},
    "dark phone": {"width": 360, "height": 740, "dark": True},
}


@pytest.mark.parametrize("look", LOOKS)
def test_everybody_can_use_the_page(page, lab, look):
    """axe-core finds no barrier, with a fault and the open table; nothing is wider than the page."""
    page.look(**LOOKS[look])
    page.click("[aria-label='Pause replica']")
    page.run("document.querySelector('#table').open = true")
    for _ in range(12):
        lab.tick()
    page.shows("#node-replica .figures", "paused")

    assert page.barriers() == []
    assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    assert page.complaints() == []


def test_a_barrier_is_found(page):
    """A button without a name, put into the page."""
    page.run("document.querySelector('#links').append(document.createElement('button'))")

    assert any(each.startswith("button-name") for each in page.barriers())


def test_the_keyboard_reaches_every_control(page):
    """Tab goes through all of them, in the order in which they stand, and each shows where it is."""
    page.run("document.body.focus()")
    reached = []
    for _ in range(60):
        page.driver.switch_to.active_element.send_keys(Keys.TAB)
        name, outlined = page.run(FOCUS)
        reached.append(name)
        assert outlined != "none" or name == ""
        if name == "log":
            break

    wanted = [
        "window",
        "theme",
        f"Round trip of {LINK}",
        f"Cut {LINK}",
        "Kill source",
        "Promote replica",
        "check",
        "log",
    ]
    assert [each for each in reached if each in wanted] == wanted


def state_of(topology) -> dict:
    """Return what the picture needs of a state, with one link that is broken."""
    nodes = [
        {"name": each.name, "role": each.role, "at": "running", "state": "ok", "level": "good"}
        for each in topology.nodes
    ]
    ends = [{"name": each.name, "source": each.source, "target": each.target} for each in topology.links]
    links = [{**each, "asked": "85ms", "was": "85ms", "measured_ms": 85.4, "seen": True} for each in ends]
    links[1:2] = [{**each, "asked": "one-way", "measured_ms": None} for each in links[1:2]]
    load = {"clients": 4, "rate": 0, "node": topology.nodes[0].name}
    return {"nodes": nodes, "links": links, "load": load, "sample": {"commits_per_s": 11.8}}


# The picture is drawn alone; the answer has the boxes of nodes and of links' labels as left, top, right, bottom.
DRAW = """
  const [state, done] = arguments;
  const place = document.querySelector('#picture');
  import('/assets/live/picture.js').then(({ Picture }) => {
    new Picture(place).update(state);
    const boxes = (css) => [...place.querySelectorAll(css)].map((each) => {
      const { left, top, right, bottom } = each.getBoundingClientRect();
      return [left, top, right, bottom];
    });
    done({ nodes: boxes('.box'), labels: boxes('.label-box'), whole: boxes('svg') });
  });
"""


def covers(one, other) -> bool:
    """Return whether two boxes have more in common than a rounded corner."""
    across, down = (min(one[at + 2], other[at + 2]) - max(one[at], other[at]) for at in (0, 1))
    return across > 6 and down > 6


@pytest.mark.parametrize("name", catalogue.topologies())
def test_every_topology_has_a_picture(page, name):
    """Each node and each link is in it, and no box covers another one."""
    topology = catalogue.topology(name)
    page.driver.set_script_timeout(20)
    found = page.driver.execute_async_script(DRAW, state_of(topology))

    assert len(found["labels"]) == len(topology.links) and len(found["nodes"]) >= len(topology.nodes)
    boxes = [*found["nodes"], *found["labels"]]
    assert [(one, other) for one, other in combinations(boxes, 2) if covers(one, other)] == []
    left, top, right, bottom = found["whole"][0]
    assert all(left <= box[0] and box[2] <= right and top <= box[1] and box[3] <= bottom for box in boxes)


STEPS = """
  const done = arguments[0];
  import('/assets/live/condition.js').then(({ LAST_STEP, atStep, stepOf, placeOf }) => {
    const steps = [...Array(LAST_STEP + 1).keys()].map(atStep);
    done(steps.map((ms) => [ms, stepOf(ms), placeOf(ms)]));
  });
"""


def test_the_slider_goes_from_nothing_to_300_ms(page):
    """By a log scale: 0, 0.1 ms and 300 ms are there, each step is longer than the one before and is found again."""
    steps = page.driver.execute_async_script(STEPS)
    trips, again, places = zip(*steps, strict=True)

    assert {0, 0.1, 1, 10, 100, 200, 300} <= set(trips)
    assert list(trips) == sorted(set(trips)) and list(again) == list(range(len(trips)))
    assert places[0] == 0 and places[-1] == 1 and list(places) == sorted(set(places))


SPANS = """
  const [spans, done] = arguments;
  import('/assets/live/history.js').then(({ History }) => {
    const history = new History();
    history.add({ at: 60, sample: { at: 60 }, spans });
    done(history.faults.map(({ label, begin, end, seen }) => [label, begin, end, seen]));
  });
"""


def test_a_condition_of_several_links_is_one_band(page):
    """Given at the same time; the steps of a slider that went on within a second are none."""
    condition = {"kind": "link", "seen": True, "end": None}
    spans = [
        {**condition, "id": 0, "begin": 9.5, "end": 10.0, "label": "a-b 50ms", "target": "a-b"},
        {**condition, "id": 1, "begin": 10.0, "label": "a-b 60ms", "target": "a-b"},
        {**condition, "id": 2, "begin": 10.4, "label": "b-a 60ms", "target": "b-a", "seen": False},
        {**condition, "id": 3, "begin": 20.0, "label": "b-c 60ms", "target": "b-c"},
        {"kind": "node", "id": 4, "begin": 30.0, "end": 30.2, "label": "promote b", "target": "b", "seen": True},
    ]
    found = page.driver.execute_async_script(SPANS, spans)

    assert found == [
        ["2 links 60ms", 10, None, False],
        ["b-c 60ms", 20, None, True],
        ["promote b", 30, 30.2, True],
    ]
