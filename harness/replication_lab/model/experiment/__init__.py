"""An experiment: its cases, its claims, and what decides them."""
