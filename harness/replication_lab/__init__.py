"""The lab: real servers, real faults, and verdicts that can be trusted."""
