"""Actions of a user on a lab."""
