"""The experiment that answers a user's question, of `lab ask` or a file: its cases, claims, loads and settings."""
