"""Python files of the user's own: experiments and faults in lab/, which may import what is beside them."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from replication_lab.model.core.errors import LabError
from replication_lab.world import own

# The name under which Python knows the user's folder: `from ..workloads.carts import Carts` works in an experiment.
PACKAGE = "lab_files"


def module_of(path: Path, expected: str) -> ModuleType:
    """Return the module of a file in lab/KIND/. Raise LabError with file and line for one that cannot be imported."""
    _make_package(path.parents[1])
    try:
        return importlib.import_module(f"{PACKAGE}.{path.parent.name}.{path.stem}")
    except LabError as error:
        raise LabError(f"{_place(path, error)}: {error.found}", error.expected, error.next_step) from error
    except Exception as error:  # of any type: it is the user's program
        raise LabError(f"{_place(path, error)}: {type(error).__name__}: {_said(error)}", expected) from error


def is_own(module: str) -> bool:
    """Return whether a module of this name is in a user's folder."""
    return module.startswith(f"{PACKAGE}.")


def _make_package(folder: Path) -> None:
    """Make the user's folder a package; forget that of another project."""
    if PACKAGE in sys.modules and list(sys.modules[PACKAGE].__path__) == [str(folder)]:
        return
    for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    package = ModuleType(PACKAGE, "The user's own files.")
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package


def _said(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _place(path: Path, error: Exception) -> str:
    """Return FILE:LINE of the user's own file in which an error arose."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{own.shown(Path(error.filename))}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if Path(frame.filename).is_relative_to(path.parents[1])]
    return f"{own.shown(Path(mine[-1].filename))}:{mine[-1].lineno}" if mine else f"{own.shown(path)}:1"
