"""Whether Ruby's Sidekiq works on the same server: it leaves less behind than our workers."""

from __future__ import annotations

from offsider.inspector import Process, ProcessSet
from offsider.wiring.config import Config

#: The first that tells its version, as our own workers do.
_FIRST_TOLD = 7


def ruby_processes(config: Config) -> int:
    """How many processes of Sidekiq work."""
    return sum(map(_is_ruby, ProcessSet(config)))


def _is_ruby(process: Process) -> bool:
    # Before version 7 it told none. Ours tell theirs, which is lower, unless they speak as version 6.
    major = process.version.partition(".")[0]
    return not process.version or (major.isascii() and major.isdigit() and int(major[:9]) >= _FIRST_TOLD)
