"""Detect Ruby's Sidekiq on the same server: its processes store fewer details than our workers."""

from __future__ import annotations

from offsider.config.installation import Installation
from offsider.inspector import Process, ProcessSet

#: First major version that publishes its version, as our workers do.
_FIRST_WITH_VERSION = 7


def ruby_processes(here: Installation) -> int:
    """Return the number of running Sidekiq processes."""
    return sum(map(_is_ruby, ProcessSet(here)))


def _is_ruby(process: Process) -> bool:
    # Sidekiq before 7 publishes no version. Our workers publish theirs, which is lower, unless they use wire version 6.
    major = process.version.partition(".")[0]
    return not process.version or (major.isascii() and major.isdigit() and int(major[:9]) >= _FIRST_WITH_VERSION)
