"""Probes: each file reads one kind of figure."""
