"""The values of the option --noise: how a run reacts while other programs use the CPUs."""

# Wait for a quiet machine and measure again; stop the run; or accept the figures, with verdicts UNKNOWN.
WAIT, STOP, ACCEPT = "wait", "stop", "accept"
NOISE = (WAIT, STOP, ACCEPT)
