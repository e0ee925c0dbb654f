"""Whether transactions were isolated from each other: their history, and the anomalies in it."""
