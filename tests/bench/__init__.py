"""`make bench`: the lab's own performance, as ratios from one run."""
