"""Everything comes from the project's own pytest plugin."""

pytest_plugins = ["harness.pytest_plugin"]
