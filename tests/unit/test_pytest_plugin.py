"""Do the fixtures cost nothing when unused, and do their answers say why a test failed and never pass an UNKNOWN?"""

import re
import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest
from replication_lab import pytest_plugin
from replication_lab.model.core.errors import LabError
from replication_lab.model.experiment.claim import Claim
from replication_lab.model.experiment.judgement import NotJudged
from replication_lab.model.experiment.quantities import throughput
from replication_lab.model.lab.condition import parse_condition
from replication_lab.pytest_plugin import answers
from replication_lab.pytest_plugin import session as session_module
from replication_lab.pytest_plugin.answers import Answer
from replication_lab.pytest_plugin.handles import Acting, RunningLab
from replication_lab.pytest_plugin.recorded import Drilled, Judged
from replication_lab.pytest_plugin.session import LabSession
from replication_lab.report import wording
from replication_lab.world import catalogue, folders

from tests.fakes.fault import FakeFault
from tests.fakes.link import FakeLink
from tests.unit.synthetic_runs import FAR, tiny

FASTER = Claim("faster", "semi-sync is ten times as fast", throughput(FAR) / throughput("none") >= 10)
LISTS = """
import sys, time
began = time.perf_counter()
import replication_lab.pytest_plugin
print(time.perf_counter() - began)
print(*{name.partition(".")[0] for name in sys.modules} | {n for n in sys.modules if n.startswith("replication_lab")})
"""


@pytest.mark.whole
def test_a_session_that_uses_no_fixture_imports_nothing_of_the_lab():
    """A second process shows what the entry point costs: the plugin's own file beside pytest, in a few milliseconds."""
    command = [sys.executable, "-c", "import pytest\n" + LISTS]
    seconds, modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = set(modules.split())

    assert found & {"docker", "scipy", "numpy", "pymysql", "msgspec", "yaml", "requests", "rich"} == set()
    assert {name for name in found if name.startswith("replication_lab.")} == {"replication_lab.pytest_plugin"}
    assert float(seconds) < 0.2


@pytest.fixture(autouse=True)
def nothing_asked():
    """Forget the answers of other tests."""
    answers.take_asked()
    yield
    answers.take_asked()


@pytest.fixture
def judged(undisturbed, tmp_path):
    """Return the verdicts of two claims in a world without trouble: one holds, one is refuted."""
    summary, _ = undisturbed(OF_TWO)
    return Judged(tmp_path / "runs", summary, "fail")


CONSUMER = catalogue.ROOT / "tests" / "consumer"
OF_TWO = tiny(*tiny().claims, FASTER)


def explained(error):
    """Return the message of an error as the report of a failed test has it."""
    pytest_plugin._explain(error)
    return str(error)


def test_a_claim_that_holds_passes(judged):
    """A verdict is read as true or false."""
    assert judged.holds("costs-a-trip")
    assert judged.refuted("faster")
    assert not judged.refuted("costs-a-trip")


def test_a_failed_assertion_says_claim_verdict_interval_reason_and_report(judged):
    """A plain assert is enough: pytest shows one line of the answer, and the rest is added to its message."""
    with pytest.raises(AssertionError) as told:
        assert judged.holds("faster")
    said = explained(told.value)

    assert said.startswith("assert REFUTED: faster on mariadb, measured 0.")
    assert "semi-sync is ten times as fast" in said and "≥ 10" in said
    (row,) = judged.claim("faster")
    assert row.reason in said and "report.html" in said
    assert wording.measured(row) in said


def test_the_whole_run_is_asked_in_the_same_way(judged):
    """With each verdict that is not the expected one."""
    with pytest.raises(AssertionError) as told:
        assert judged.as_expected

    assert "REFUTED, expected HOLDS: semi-sync is ten times as fast" in explained(told.value)


def test_an_unknown_claim_name_is_refused(judged, refused):
    """With the most similar name."""
    assert "did you mean faster" in refused(judged.holds, "fastr").found


def test_a_claim_that_was_not_judged_on_each_engine_is_unknown(judged, tmp_path):
    """It holds on one, and another one does not support its case; one that is only compared with counts as included."""
    left = NotJudged(claim="costs-a-trip", engine="mysql-5.5", case=FAR, reason="MySQL 5.5 has no semi-sync")
    partly = Judged(tmp_path, _with(judged.summary, not_judged=[left]), "fail")
    compared = Judged(tmp_path, _with(judged.summary, not_judged=[_with(left, reference=True)]), "fail")

    for read in (partly.holds, partly.refuted):
        with pytest.raises(pytest.fail.Exception, match=r"not judged on mysql-5\.5|MySQL 5\.5 has no semi-sync"):
            bool(read("costs-a-trip"))
    assert partly.holds("costs-a-trip", engine="mariadb") and compared.holds("costs-a-trip")
    with pytest.raises(pytest.fail.Exception, match=r"was not judged on mysql-5\.5"):
        bool(compared.holds("costs-a-trip", engine="mysql-5.5"))


def test_a_refuted_claim_does_not_hold_whatever_else_is_unknown(judged, tmp_path):
    """--lab-unknown=skip does not hide it."""
    left = NotJudged(claim="faster", engine="mysql-5.5", case=FAR, reason="MySQL 5.5 has no semi-sync")
    partly = Judged(tmp_path, _with(judged.summary, not_judged=[left]), "skip")

    assert bool(partly.holds("faster")) is False
    with pytest.raises(pytest.skip.Exception):
        bool(partly.refuted("faster"))


def test_the_answers_of_a_test_that_passed_are_not_told_by_the_next_one(judged):
    """Each phase of a test takes its own."""
    assert judged.holds("costs-a-trip")
    item = SimpleNamespace(listchain=list, config=SimpleNamespace(stash={}))
    hook = pytest_plugin.pytest_runtest_makereport(item, SimpleNamespace(excinfo=None))
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(SimpleNamespace(failed=False))

    assert explained(AssertionError("something else")) == "something else"


@pytest.mark.parametrize(
    ("policy", "end"),
    [("fail", pytest.fail.Exception), ("skip", pytest.skip.Exception), ("xfail", pytest.xfail.Exception)],
)
@pytest.mark.parametrize("read", [bool, lambda answer: not answer], ids=["assert", "assert not"])
def test_an_unknown_answer_never_passes(policy, end, read):
    """Not even where a test asserts the opposite."""
    with pytest.raises(end, match=r"^UNKNOWN: x\n  why"):
        read(Answer(None, "x", "UNKNOWN: x\n  why", policy))


def test_a_claim_of_a_noisy_run_is_unknown(judged, tmp_path):
    """The summary's verdict decides, whatever was measured."""
    rows = [_with(row, verdict="UNKNOWN", reason="a noisy machine") for row in judged.summary.claims]
    noisy = Judged(tmp_path, _with(judged.summary, claims=rows, exit_code=3), "fail")

    for answer in (noisy.holds("faster"), noisy.refuted("faster"), noisy.as_expected):
        with pytest.raises(pytest.fail.Exception, match="a noisy machine"):
            bool(answer)


def _with(row, **changed):
    return msgspec.structs.replace(row, **changed)


# --- faults -----------------------------------------------------------------------------------------------------------


def test_a_fault_is_recovered_once():
    """By `recover` or by the end of the block."""
    fault = FakeFault()
    with Acting(fault, "fail") as acting:
        acting.recover()

    assert fault.asked == ["inject", "verify", "verify", "recover", "verify_recovered", "close"]


def test_a_fault_that_does_nothing_ends_the_test_and_is_undone():
    """What the test would see next is not the fault's effect."""
    fault = FakeFault(holds=False)

    with pytest.raises(pytest.fail.Exception, match="UNKNOWN: it is cut: found not so"):
        Acting(fault, "fail")
    assert fault.asked == ["inject", "verify", "recover", "close"]


def test_a_fault_that_did_not_last_or_stays_ends_the_test():
    """Each is noticed at the end of the block."""
    for spoilt in ("holds", "gone"):
        fault = FakeFault()
        with pytest.raises(pytest.fail.Exception, match="UNKNOWN"):
            with Acting(fault, "fail"):
                setattr(fault, spoilt, False)
        assert fault.asked == ["inject", "verify", "verify", "recover", "verify_recovered", "close"]


def test_the_error_of_the_test_is_not_hidden_by_the_recovery():
    """A recovery that fails as well is not what the test is about."""
    fault = FakeFault()
    fault.recover = lambda: (_ for _ in ()).throw(LabError("no answer"))

    with pytest.raises(ZeroDivisionError):
        with Acting(fault, "fail"):
            _ = 1 / 0


def test_a_fault_that_a_test_leaves_is_kept_for_the_end_of_the_test(monkeypatch):
    """Only one of the test itself: what a fixture injects lasts as long as the fixture."""
    left = []
    lab = RunningLab(None, "fail", left)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "x (setup)")
    lab.injected(FakeFault())
    assert left == []
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "x (call)")
    acting = lab.injected(FakeFault())

    assert left == [acting]


def test_each_fault_that_a_test_left_is_recovered_although_one_was_not_proved(pytestconfig):
    """The next test gets a lab without any of them, and the error is told."""
    first, second = FakeFault(), FakeFault()
    session = LabSession(pytestconfig)
    session._left = [Acting(first, "fail"), Acting(second, "fail")]
    second.gone = False

    with pytest.raises(pytest.fail.Exception, match="it is whole: found not so"):
        session.recover_forgotten()
    assert first.asked[-3:] == second.asked[-3:] == ["recover", "verify_recovered", "close"]
    assert session._left == []


def test_a_fault_left_on_a_lab_of_the_test_s_own_is_proved_before_the_lab_is_removed(pytestconfig, monkeypatch):
    """Without that, a fault that ended early would not be noticed."""
    monkeypatch.setattr(session_module, "remove", lambda _lab: None)
    monkeypatch.setattr(LabSession, "start", lambda *_args, **_asked: None)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "x (call)")
    session, fault = LabSession(pytestconfig), FakeFault()

    with session.labs(SimpleNamespace(stash={}), "") as start:
        start("single").injected(fault)
        fault.holds = False
        with pytest.raises(pytest.fail.Exception, match="it is cut: found not so"):
            session.recover_forgotten()
    assert fault.asked == ["inject", "verify", "verify", "recover", "verify_recovered", "close"]


@pytest.mark.parametrize(("installed", "said"), [(True, "lab up --help"), (False, "./lab up --help")])
def test_an_error_in_a_test_names_the_command_as_it_is_typed(pytestconfig, monkeypatch, installed, said):
    """An installed package has no launcher."""
    monkeypatch.setattr(folders, "INSTALLED", installed)
    error = LabError("what is wrong", "what is right", "./lab up --help")
    stash = {pytest_plugin.SESSION: LabSession(pytestconfig)}
    item = SimpleNamespace(config=SimpleNamespace(stash=stash))
    next(pytest_plugin.pytest_runtest_makereport(item, SimpleNamespace(excinfo=SimpleNamespace(value=error))))

    assert str(error).splitlines()[-1] == f"next: {said}"


@pytest.fixture
def changed(conditioned):
    """Return a link with a condition of its own, and a fault that gives it another one."""
    link = FakeLink("a-b")
    for body in parse_condition("20ms", "toxic").toxic().bodies:
        link.add(body)
    return link, conditioned(link, parse_condition("80ms", "toxic").toxic(), calibrate=True)


def test_another_condition_is_calibrated_proved_and_replaced_by_what_was_there(changed):
    """The link has its own toxics again, and its round trip."""
    link, fault = changed
    before = link.toxics()
    fault.inject()
    assert [proof.ok for proof in fault.verify()] == [True]
    assert 79 < link.round_trip_ms() < 82
    fault.recover()

    assert link.toxics() == before
    assert [proof.ok for proof in fault.verify_recovered()] == [True, True]


def test_a_condition_that_does_not_act_or_stays_is_noticed(changed):
    """By the round trips and by the toxics on the link."""
    link, fault = changed
    fault.inject()
    acting = link.toxics()
    for body in acting:
        link.remove(body.name)
    assert [proof.ok for proof in fault.verify()] == [False]

    assert not all(proof.ok for proof in fault.verify_recovered())


# --- drills -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def drilled(tmp_path):
    """Return the result of a drill with these figures and doubts."""

    def make(figures, doubts=()):
        row = SimpleNamespace(name="cut-link", figures=figures, doubts=list(doubts))
        summary = SimpleNamespace(drills=[row], topology="async", judged=[], verdict="UNKNOWN", exit_code=3)
        return Drilled(tmp_path / "runs", summary, "fail")

    return make


def test_a_figure_of_a_drill_is_read_by_its_name(drilled):
    """A name with a dot by brackets; an unknown one is refused with those that there are."""
    result = drilled({"lost": 0, "during.acknowledged": 12})

    assert result.lost == 0 and result["during.acknowledged"] == 12
    with pytest.raises(AttributeError, match="has no figure lots; it has lost"):
        _ = result.lots


def test_a_figure_of_a_drill_in_doubt_shows_nothing(drilled):
    """A drill whose fault was not seen has lost no row, which is no reason to pass."""
    with pytest.raises(pytest.fail.Exception, match="UNKNOWN: lost of drill cut-link: no fault was seen"):
        _ = drilled({"lost": 0}, ["no fault was seen"]).lost
    with pytest.raises(pytest.fail.Exception, match="UNKNOWN: the figures of drill cut-link: no fault was seen"):
        _ = drilled({"lost": 0}, ["no fault was seen"]).figures


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_page_are_parts_of_the_project_that_is_tested():
    """Word for word: tests/lab/test_consumer.py runs them. A few lines about links are no test."""
    plugin, _, links = (catalogue.ROOT / "docs" / "pytest.md").read_text().partition("\n## With Testcontainers\n")
    files = [path for path in CONSUMER.rglob("*") if path.suffix in (".py", ".toml", ".yaml")]
    texts = [path.read_text() for path in files]
    block = re.compile(r"^```(?:python|toml|yaml)\n(.*?)^```$", re.S | re.M)

    examples = [*block.findall(plugin), *(each for each in block.findall(links) if "def test_" in each)]
    assert len(examples) >= 9
    assert [each for each in examples if not any(each in text for text in texts)] == []


def test_the_page_lists_every_option():
    """As --lab-NAME."""
    page = (catalogue.ROOT / "docs" / "pytest.md").read_text()

    assert [name for name in (*pytest_plugin.OPTIONS, "keep") if f"`--lab-{name}" not in page] == []
