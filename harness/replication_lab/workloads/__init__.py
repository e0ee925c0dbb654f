"""What the clients do: settings plus one method, one file a kind."""
