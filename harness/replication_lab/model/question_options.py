"""Names that are no settings of a question: options that are the same for all cases, and settings of no one node."""

from replication_lab.model.errors import LabError

# Options of `lab ask` that a user may take for settings.
OPTIONS = (
    "baseline",
    "claim",
    "drill",
    "drill_runs",
    "image",
    "init",
    "ledger",
    "load_command",
    "load_image",
    "margin",
    "max_minutes",
    "noise",
    "rounds",
    "schema",
    "seconds",
    "seed",
    "workload",
)


def refuse_an_option(name: str) -> None:
    """Raise LabError for an option that is given as a setting: a server has no variable of that name."""
    option = name.replace("-", "_")
    if option in OPTIONS:
        typed = option.replace("_", "-")
        raise LabError(f"{name} is no setting", f"the option --{typed}, the same for all cases", f"--{typed} …")


def refuse_of_a_node(name: str, of_all: tuple[str, ...]) -> None:
    """Raise LabError for a setting of the whole case that is given for one node, such as "source.clients"."""
    node, dot, what = name.partition(".")
    if dot and what in of_all:
        raise LabError(f"{name}: {what} is not a setting of one node", f"{what}, without {node}", f"--set {what}=…")


# A value of each number, for the next command to type.
TYPICAL = {"seconds": "3", "rounds": "12", "margin": "10%", "max_minutes": "60", "drill_runs": "3"}


def refuse_out_of_limits(name: str, value: float, low: float, high: float) -> None:
    """Raise LabError for a number of these options that is not within its limits; the margin is told in percent."""
    if low <= value <= high:
        return
    option = name.replace("_", "-")
    # 0 stands for the default number of drills, which the option does not take.
    least = 1 if name == "drill_runs" else low
    found, first, last = (f"{each * 100:g}%" if name == "margin" else f"{each:g}" for each in (value, least, high))
    raise LabError(f"{option} is {found}", f"a number from {first} to {last}", f"--{option} {TYPICAL[name]}")
