"""A user's question: its settings, its load, and the claims about it."""
