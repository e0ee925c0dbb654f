"""The lab: real servers, real faults, and verdicts that can be trusted."""

# The build reads it here.
VERSION = "0.2.0"
