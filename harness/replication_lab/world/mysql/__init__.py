"""SQL to the servers, by dialect."""
