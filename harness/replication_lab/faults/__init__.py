"""What breaks: one file a kind. Each proves that it took hold and undoes exactly itself."""
