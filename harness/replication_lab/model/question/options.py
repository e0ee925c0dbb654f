"""The options of a question that are no settings, and the limits of its numbers."""

from replication_lab.model.core.errors import LabError
from replication_lab.model.lab.option_file import Option, refuse_reserved

# Options of `lab ask` that a user may mistake for settings.
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


def refuse_no_setting(name: str, of_all_nodes: tuple[str, ...]) -> None:
    """Raise LabError for a name that no setting can have.

    That is an option that is the same for all cases, a setting `of_all_nodes` that is given for a single node, or a
    variable that the lab sets itself.
    """
    option = name.replace("-", "_")
    if option in OPTIONS:
        typed = option.replace("_", "-")
        raise LabError(f"{name} is not a setting", f"the option --{typed}, which applies to all cases", f"--{typed} …")
    node, _, what = name.rpartition(".")
    if node and what in of_all_nodes:
        raise LabError(f"{name}: {what} is not a setting of one node", f"{what}, without {node}", f"--set {what}=…")
    refuse_reserved(Option(what, ""))


# An example value of each number, for the suggested command.
TYPICAL = {"seconds": "3", "rounds": "12", "margin": "10%", "max_minutes": "60", "drill_runs": "3"}


def refuse_out_of_limits(name: str, value: float, low: float, high: float) -> None:
    """Raise LabError for a number that is not within its limits; the message shows the margin in percent."""
    if low <= value <= high:
        return
    option = name.replace("_", "-")
    # 0 stands for the default number of drills; the option itself does not accept it.
    least = 1 if name == "drill_runs" else low
    found, first, last = (f"{each * 100:g}%" if name == "margin" else f"{each:g}" for each in (value, least, high))
    raise LabError(f"{option} is {found}", f"a number from {first} to {last}", f"--{option} {TYPICAL[name]}")
