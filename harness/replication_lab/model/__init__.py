"""Pure data and rules: topologies, faults, experiments, records, and the verdicts that follow from them."""
