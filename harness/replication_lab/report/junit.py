"""junit.xml: one test case per claim and engine. A changed verdict is a failure, UNKNOWN an error; neither is green."""

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from replication_lab.model.verdict import Verdict
from replication_lab.report import wording
from replication_lab.report.rows import ClaimRow, NotJudgedRow, Summary


def render(summary: Summary) -> bytes:
    xml = JUnitXml("replication-lab")
    for engine in summary.engines:
        xml.add_testsuite(_suite(engine, summary))
    xml.update_statistics()
    return xml.tostring()


def _suite(engine: str, summary: Summary) -> TestSuite:
    suite = TestSuite(f"{summary.experiment} on {engine}")
    suite.timestamp = summary.started
    claims = [claim for claim in summary.claims if claim.engine == engine]
    suite.add_testcases([_case(claim, summary) for claim in claims])
    suite.add_testcases([_skipped(left, summary) for left in summary.not_judged if left.engine == engine])
    if summary.crashed or not claims:
        suite.add_testcase(_nothing_judged(engine, summary))
    return suite


def _case(claim: ClaimRow, summary: Summary) -> TestCase:
    case = TestCase(f"{claim.id}: {claim.sentence}", classname=f"{summary.experiment}.{claim.engine}")
    told = (wording.verdict(claim), claim.relation, wording.evidence(claim), wording.explanation(claim))
    case.system_out = "\n".join(told)
    if claim.changed:
        case.result = [Failure(f"{wording.verdict(claim)}: {claim.reason}", "changed verdict")]
    elif claim.verdict is Verdict.UNKNOWN:
        case.result = [Error(claim.reason, "unknown verdict")]
    return case


def _skipped(left: NotJudgedRow, summary: Summary) -> TestCase:
    case = TestCase(left.claim, classname=f"{summary.experiment}.{left.engine}")
    case.result = [Skipped(wording.why_not_judged(left), "not judged")]
    return case


def _nothing_judged(engine: str, summary: Summary) -> TestCase:
    case = TestCase("the run came to its end", classname=f"{summary.experiment}.{engine}")
    case.result = [Error(summary.crashed or "no claim was judged", "no verdict")]
    return case
