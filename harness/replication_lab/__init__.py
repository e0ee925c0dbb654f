"""The lab: real servers, real faults, and verdicts that can be trusted.

The names in `__all__` are the public ones: what an experiment, a load, a probe or a fault of your own is written with,
and the types that the fixtures of the pytest plugin return. They keep their meaning within a minor version. Every other
module is private.

A name is imported when it is first used, so that `import replication_lab` loads neither Docker nor scipy.
"""

import ast
from importlib import import_module
from pkgutil import get_data
from typing import Any

# The build reads it here.
VERSION = "0.3.0"

# The public names and their modules, which the stub beside this file has for type checkers and editors as well. The
# archive of clients beside the nodes has it, too.
_MODULES = {
    name.name: str(found.module)
    for found in ast.parse(get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(found, ast.ImportFrom)
    for name in found.names
}
__all__ = list(sorted(_MODULES))


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
