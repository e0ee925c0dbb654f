"""The work of other programs during a measurement, and how a run reacts to it: the values of the option --noise."""

import msgspec

# Wait for a quiet machine and measure again; stop the run; or accept the figures, with verdicts UNKNOWN.
WAIT, STOP, ACCEPT = "wait", "stop", "accept"
NOISE = (WAIT, STOP, ACCEPT)


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Other work of the host during a measurement; shares are 0…1 of all CPUs, `why` is the reason if not `quiet`.

    `accepted` means that figures count despite noise, since the user wanted it, or since the load of the engine's
    machine is not `readable`; each of them is then in doubt. `own_cpu` is the share that the lab and the harness used.
    `foreign_cpu_of_a_second` is the share that others used in the worst second, `foreign_disk` the share of the time in
    which a disk worked for them, `memory_stalled` that in which a task waited for memory.
    `loop_us` is the CPU time in microseconds of a loop that is the same in every measurement: the speed of the CPUs.
    """

    foreign_cpu: float | None = None
    own_cpu: float | None = None
    steal: float | None = None
    foreign_cpu_of_a_second: float | None = None
    foreign_disk: float | None = None
    memory_stalled: float | None = None
    psi_cpu_some: float | None = None
    load1: float | None = None
    loop_us: float | None = None
    quiet: bool = True
    why: str = ""
    readable: bool = True
    accepted: bool = False

    @property
    def counts(self) -> bool:
        return self.quiet or self.accepted
