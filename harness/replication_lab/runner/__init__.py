"""Running: rounds, sessions, drills."""
