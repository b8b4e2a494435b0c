"""Every row, in its order: those of all modules of this package that declare some."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from bench.scoreboard.row import Row

#: Modules of workers, which need an environment of their own, and the command line.
_OTHERS = ("__main__", "application", "extended", "rows", "tables")
_MODULES = [
    importlib.import_module(f"bench.scoreboard.{module.name}")
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if module.name not in _OTHERS
]
_FOUND = {item.name: item for module in _MODULES for item in vars(module).values() if isinstance(item, Row)}

ROWS: dict[str, Row] = dict(sorted(_FOUND.items(), key=lambda item: int(item[0][1:])))
