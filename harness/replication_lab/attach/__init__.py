"""A Compose project that the lab did not write: planned, checked, attached, restored, and its drills."""
