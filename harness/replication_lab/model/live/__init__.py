"""What a viewer of the live page sees."""
