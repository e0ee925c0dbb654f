"""One question a file, with the figures from the literature in the YAML beside it."""
