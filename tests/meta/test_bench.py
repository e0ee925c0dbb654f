"""Does a figure of the benchmark say how sure it is?"""

from tests.bench.figure import figure


def test_a_figure_has_the_interval_of_the_mean_of_its_readings():
    """Student's, at 95 %; none for a single reading, which has no spread."""
    found = figure("share of throughput lost", "", [0.01, 0.0, -0.01, 0.02, 0.0], 0.01)

    assert found.interval == (-0.01, 0.018) and found.value == 0.0 and found.met
    assert figure("memory", "MiB", [200.0], 300).interval is None
