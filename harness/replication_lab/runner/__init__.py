"""Acts: rounds, sessions, drills."""
