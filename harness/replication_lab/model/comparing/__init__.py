"""Two runs compared, and many runs over time."""
