"""Drills: what is broken, what was seen, and whether the expectations are met."""
