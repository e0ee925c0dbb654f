"""Workloads: each file is one kind of client load, with its settings and one method."""
