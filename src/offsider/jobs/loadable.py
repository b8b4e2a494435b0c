"""Detects declarations that a worker cannot repeat by importing a module."""

from __future__ import annotations

import sys
from pathlib import Path
from traceback import walk_stack


def obstacle(module: str, qualname: str) -> str:
    """Return why no worker can load what is declared now under this name, and what to do; empty if one can.

    Args:
        module: the module that a worker would import.
        qualname: the qualified name in it.
    """
    if module == "__main__":
        return (
            "it is declared in an interactive session, a notebook or python -c: move it to a module, and start workers "
            "with -r MODULE"
        )
    if qualname.endswith("<lambda>"):
        return f"it is a lambda, which shares its name with all others in its place: {_advice(module)}"
    if "<locals>" in qualname and not _is_importing():
        return f"it is defined inside of a function that importing {module} does not call: {_advice(module)}"
    return ""


def _advice(module: str) -> str:
    main = sys.modules.get("__main__")
    path = Path(getattr(main, "__file__", None) or "")
    is_script = getattr(main, "__spec__", None) is None and path.stem == module
    return f"define it with def at the top level, and start workers with -r {path if is_script else module}"


def _is_importing() -> bool:
    """Whether the import of a module runs, which a worker repeats."""
    specs = (frame.f_globals.get("__spec__") for frame, _ in walk_stack(None) if frame.f_code.co_name == "<module>")
    return any(getattr(spec, "_initializing", False) for spec in specs)
