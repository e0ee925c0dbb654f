"""What was recorded of a run, and the parts of it that were chosen."""
