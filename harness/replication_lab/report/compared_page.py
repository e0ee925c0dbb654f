"""A comparison of two runs as a page, in the form of the reports."""

from replication_lab.model.comparing.comparison import Comparison
from replication_lab.model.core.exit_code import ExitCode
from replication_lab.report import answers, compared, page

# At most this many changes are named in the answer; the table has all of them.
NAMED = 3


def render(found: Comparison, margin: float) -> str:
    """Return the page: the outcome, what differs between the runs, and each change."""
    ending = compared.ENDINGS[ExitCode(found.exit_code)].format(margin=margin)
    return page.rendered(
        "page_of_comparison.html.j2",
        found=found,
        margin=margin,
        changes=compared.in_order(found),
        sentences=list(map(answers.sentence, (ending, *list(compared.reasons(found))[:NAMED]))),
        doubts=[*(f"differs between the runs: {each}" for each in found.differs), *compared.caveats(found)],
        ratio=compared.ratio,
        absolute=compared.absolute,
        verdicts=compared.verdicts,
    )
