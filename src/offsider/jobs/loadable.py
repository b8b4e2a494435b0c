"""The module from which a worker imports a declaration, and declarations that it cannot import."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from traceback import walk_stack
from typing import Any

# A program that was started by its path, also in a process that `multiprocessing` spawned for it.
_MAIN = ("__main__", "__mp_main__")


def import_name(path: Path) -> tuple[Path, str]:
    """Return the folder that must be on the import path, and the dotted name of a file relative to it."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def module_name(module: str, run: Callable[..., object]) -> str:
    """Return the name under which a worker imports the module in which ``run`` is declared.

    No worker can import ``__main__``: the jobs of a program are stored under the name of its file in its package.
    """
    if module not in _MAIN:
        return module
    # A profiler or debugger runs the program, and is `__main__` itself.
    scope: Mapping[str, Any] = getattr(inspect.unwrap(run), "__globals__", {})
    if scope.get("__name__") not in _MAIN:  # `perform` is inherited from a module
        scope = vars(sys.modules[module])
    spec = scope.get("__spec__")
    if spec is not None and spec.name not in _MAIN:
        return str(spec.name)
    path = _path_of(scope)
    return _MAIN[0] if path is None else import_name(path)[1]


def _path_of(scope: Mapping[str, Any]) -> Path | None:
    """Return the file of a program by its globals; None if it has none, as in an interactive session."""
    path = scope.get("__file__")
    return Path(path).resolve() if path and os.path.isfile(path) else None  # noqa: PTH113 - each declaration asks


def obstacle(module: str, qualname: str) -> str:
    """Return why no worker can load what is declared now under this name, and what to do; empty if one can.

    Args:
        module: the module that a worker would import.
        qualname: the qualified name in it.
    """
    if module == _MAIN[0]:
        return (
            "it is declared in an interactive session, a notebook, python -c or a zip archive: move it to a module, "
            "and start workers with -r MODULE"
        )
    script = _script(module)
    if script is not None and script.suffix != ".py":
        return f"workers load only files that end in .py, and it is declared in {script}: rename the file"
    if qualname.endswith("<lambda>"):
        return f"it is a lambda, which shares its name with all others in its place: {_advice(module)}"
    if "<locals>" in qualname and not _is_importing():
        return f"it is defined inside of a function that importing {module} does not call: {_advice(module)}"
    return ""


def _script(module: str) -> Path | None:
    """Return the file of the running program if a worker imports it under this name, and not as ``python -m``."""
    main = vars(sys.modules[_MAIN[0]])
    if main.get("__spec__") is not None or not (path := _path_of(main)):
        return None
    return path if path.stem == module.rpartition(".")[2] and import_name(path)[1] == module else None


def _advice(module: str) -> str:
    return f"define it with def at the top level, and start workers with -r {_script(module) or module}"


def _is_importing() -> bool:
    """Whether the import of a module runs, which a worker repeats."""
    specs = (frame.f_globals.get("__spec__") for frame, _ in walk_stack(None) if frame.f_code.co_name == "<module>")
    return any(getattr(spec, "_initializing", False) for spec in specs)
