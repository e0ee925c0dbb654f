"""The lab: real servers, real faults, and verdicts that can be trusted."""

# As in pyproject.toml, which is read by tools alone.
VERSION = "0.1.0"
