"""Lua scripts: one file per verb, whose header declares its keys and arguments.

A script begins with a shebang line (``#!lua flags=…``), then a block of comments::

    -- What it does and why plain commands would not do.
    -- KEYS[1] name
    -- KEYS[2...] name            one or more further keys
    -- ARGV[1] name
    -- returns …

Flags need Redis 7. ``allow-oom`` lets workers drain, retry and beat on a server that is full. For a server that
does not know them, `drop_flags` leaves them out.
"""

from __future__ import annotations

import hashlib
import re
import threading
import weakref
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Protocol, TypeAlias

from offsider.core.errors import RedisRefused

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

_DECLARED = re.compile(r"^-- (KEYS|ARGV)\[(\d+)(\.\.\.)?\] ", re.MULTILINE)

_lock = threading.Lock()
_every: weakref.WeakSet[Script] = weakref.WeakSet()
_without_flags = False


class Script:
    """A script by the name of its file, in ``storage/lua`` or in a folder of an extension.

    Args:
        name: file name without ``.lua``.
        folder: where the file is, for example ``importlib.resources.files("my_extension.lua")`` or a Path.
    """

    def __init__(self, name: str, folder: Traversable | None = None) -> None:
        self.name = name
        self.source = ((folder or files("offsider.storage.lua")) / f"{name}.lua").read_text("utf-8")
        self._use(self.source)
        self.keys, self.more_keys = self._declared("KEYS")
        self.arguments, self.more_arguments = self._declared("ARGV")
        with _lock:
            _every.add(self)
            if _without_flags:
                self.without_flags()

    def _use(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def _declared(self, kind: str) -> tuple[int, bool]:
        found = [match for match in _DECLARED.finditer(self.source) if match[1] == kind]
        return max((int(match[2]) for match in found), default=0), any(match[3] for match in found)

    def without_flags(self) -> None:
        """Drop the shebang line, for servers that reject script flags (rule 26)."""
        if self.text.startswith("#!"):
            self._use(self.text.partition("\n")[2])

    def by_hash(self, keys: Sequence[str], arguments: Sequence[Argument]) -> Command:
        return ("EVALSHA", self.sha, len(keys), *keys, *arguments)

    def by_text(self, keys: Sequence[str], arguments: Sequence[Argument]) -> Command:
        return ("EVAL", self.text, len(keys), *keys, *arguments)


Call: TypeAlias = tuple[Script, Sequence[str], Sequence[Argument]]
"""A script with its keys and its arguments."""


class RunsScripts(Protocol):
    """What of `Redis` runs a script; the class itself stands above this module."""

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any: ...


def flags_are_accepted(redis: RunsScripts) -> bool:
    """Try one script with flags; False when the server runs scripts, but none with flags.

    Raises:
        RedisRefused: the server runs no scripts for this user.
        RedisUnavailable: the server cannot be reached.
    """
    probe = Script("probe")
    try:
        redis.run(probe, [])
    except RedisRefused:
        probe.without_flags()
        redis.run(probe, [])
        return False
    return True


def drop_flags() -> None:
    """From now on this process sends every script without its flags: what works then ends when memory is full."""
    global _without_flags  # noqa: PLW0603 - scripts are constants of their modules, and so is this
    with _lock:
        _without_flags = True
        for script in list(_every):
            script.without_flags()
