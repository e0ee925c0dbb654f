"""What a user does to a lab."""
