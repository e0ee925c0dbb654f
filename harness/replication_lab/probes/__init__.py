"""How one number is read, one file a kind."""
