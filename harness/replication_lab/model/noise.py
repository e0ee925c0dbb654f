"""What a run does while other programs use the CPUs, by the names of the option --noise."""

# Wait for a quiet machine and measure again; stop the run; or accept the figures, with verdicts UNKNOWN.
WAIT, STOP, ACCEPT = "wait", "stop", "accept"
NOISE = (WAIT, STOP, ACCEPT)
