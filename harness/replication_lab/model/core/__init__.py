"""What every part of the model uses: errors, proofs, verdicts, statistics, the events of a record."""
