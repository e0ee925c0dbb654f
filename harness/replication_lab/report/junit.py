"""junit.xml: one test case per claim and engine, or per drill and expectation.

A changed verdict is a failure, UNKNOWN an error; neither is green, nor is a run that did not finish.
"""

from collections.abc import Sequence

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from replication_lab.model.core.verdict import Judgement, Verdict
from replication_lab.model.core.visible import visible
from replication_lab.model.experiment.judgement import NotJudged
from replication_lab.report import wording
from replication_lab.report.rows import DrillRow, DrillsSummary, ExperimentSummary, Summary


def render(summary: Summary) -> bytes:
    """Return the whole file."""
    xml = JUnitXml("replication-lab")
    if isinstance(summary, DrillsSummary):
        xml.add_testsuite(_of_drills(summary))
    else:
        for engine in summary.engines:
            xml.add_testsuite(_of_claims(engine, summary))
    xml.update_statistics()
    # No parser of XML accepts the control characters that a server's answer may have.
    return visible(xml.tostring().decode()).encode()


def _of_claims(engine: str, summary: ExperimentSummary) -> TestSuite:
    classname = f"{summary.experiment}.{engine}"
    claims = [claim for claim in summary.claims if claim.engine == engine]
    left = [each for each in summary.not_judged if each.engine == engine]
    cases = [_case(f"{one.id}: {one.sentence}", classname, one, wording.evidence(one)) for one in claims]
    cases += [*(_skipped(each, classname) for each in left), *_of_its_end(summary, claims, classname)]
    return _suite(f"{summary.experiment} on {engine}", summary, cases)


def _of_drills(summary: DrillsSummary) -> TestSuite:
    classname = f"drill.{summary.topology}"
    cases = [case for drill in summary.drills for case in _drill(drill, classname)]
    name = f"drills of {summary.topology} on {', '.join(summary.engines)}"
    return _suite(name, summary, cases + _of_its_end(summary, summary.judged, classname))


def _suite(name: str, summary: Summary, cases: list[TestCase]) -> TestSuite:
    suite = TestSuite(name)
    suite.timestamp = summary.started
    suite.add_testcases(cases)
    return suite


def _drill(drill: DrillRow, classname: str) -> list[TestCase]:
    if not drill.expectations:
        case = TestCase("the drill was completed", classname=f"{classname}.{drill.name}")
        case.result = [Error("; ".join(drill.doubts), "unknown verdict")]
        return [case]
    return [_case(row.sentence, f"{classname}.{drill.name}", row) for row in drill.expectations]


def _case(name: str, classname: str, row: Judgement, *figures: str) -> TestCase:
    case = TestCase(name, classname=classname)
    case.system_out = "\n".join((wording.verdict(row), row.relation, *figures, wording.explanation(row)))
    if row.changed:
        case.result = [Failure(f"{wording.verdict(row)}: {row.reason}", "unexpected verdict")]
    elif row.verdict is Verdict.UNKNOWN:
        case.result = [Error(row.reason, "unknown verdict")]
    return case


def _skipped(left: NotJudged, classname: str) -> TestCase:
    case = TestCase(left.claim, classname=classname)
    case.result = [Skipped(wording.why_not_judged(left), "not judged")]
    return case


def _of_its_end(summary: Summary, judged: Sequence[Judgement], classname: str) -> list[TestCase]:
    """Return an error for a run that crashed or judged nothing, or that broke off although all verdicts are green."""
    why = wording.broke_off(summary)
    green = all(row.verdict is not Verdict.UNKNOWN and not row.changed for row in judged)
    if summary.crashed is None and judged and not (why and green):
        return []
    case = TestCase("the run was completed", classname=classname)
    case.result = [Error(summary.crashed or why or "no claim was judged", "no verdict")]
    return [case]
