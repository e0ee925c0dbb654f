"""Pure: what can be asked for, what was recorded, what it means."""
