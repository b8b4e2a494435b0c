"""Durations in command-line options: ``90``, ``90s``, ``5m``, ``2h``, ``1d``."""

from __future__ import annotations

import re

import click

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", re.ASCII)


def seconds_typed(_context: click.Context | None, _option: click.Parameter | None, typed: str | None) -> float | None:
    """Option callback: return the duration in seconds, or None if the option was not given.

    Raises:
        click.BadParameter: the text is not a duration; the message shows the expected format.
    """
    if typed is None:
        return None
    match = _SPAN.fullmatch(typed)
    if match is None or not float(match[1]):
        raise click.BadParameter(
            f"{typed!r} is not a duration: expected a number with s, m, h or d, such as 90s, 5m, 2h"
        )
    return float(match[1]) * _UNITS[match[2]]
