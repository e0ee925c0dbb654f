"""In which order does a watch with further figures and proofs ask?"""

from types import SimpleNamespace

from replication_lab.model.experiment.measuring import AlsoProves


def test_further_figures_are_counted_before_those_of_the_watch():
    """Its probes may take seconds, which would count as part of the load."""
    asked = []
    watch = SimpleNamespace(figures=lambda: asked.append("watch") or {"missing_rows": 0})
    both = AlsoProves(watch, list, counted=lambda: asked.append("disks") or {"disk_busy": 0.9})

    assert both.figures() == {"missing_rows": 0, "disk_busy": 0.9}
    assert asked == ["disks", "watch"]
