"""Everything comes from the project's own pytest plugin."""

pytest_plugins = ["replication_lab.pytest_plugin"]
