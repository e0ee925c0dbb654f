"""Who watches a load or a drill all through: by a log, a counter, or many readings, instead of two moments."""
