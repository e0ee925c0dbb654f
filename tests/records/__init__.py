"""Golden records: recorded runs with what was judged of them when they were made."""
