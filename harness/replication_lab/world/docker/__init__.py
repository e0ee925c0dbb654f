"""The Docker engine: images, projects, containers."""
