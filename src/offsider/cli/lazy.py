"""Imports parts of offsider when they are used: a process keeps each module that it has imported in memory."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def part(path: str) -> Any:
    """Import and return ``module:name``, for example ``cli.dry_run:run``, a part that most processes do not need."""
    module, _, name = path.partition(":")
    return getattr(import_module(f"offsider.{module}"), name)
