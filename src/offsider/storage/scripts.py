"""Lua scripts: one file per verb, whose header declares its keys and arguments.

A script begins with a shebang line (``#!lua flags=…``), then a block of comments::

    -- The purpose, and why plain commands do not suffice.
    -- KEYS[1] name
    -- KEYS[2...] name            one or more keys
    -- ARGV[1] name
    -- returns …

Flags need Redis 7. ``allow-oom`` lets workers drain queues, retry jobs and send heartbeats on a full server. For
servers without flags, `drop_flags` removes them.
"""

from __future__ import annotations

import hashlib
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from offsider.core.errors import RedisRefused

if TYPE_CHECKING:
    from offsider.storage.keys import Keys

Argument = str | bytes | int | float
Command = tuple[Argument, ...]

_LUA = files("offsider.storage") / "lua"

_lock = threading.Lock()
_every: weakref.WeakSet[Script] = weakref.WeakSet()
_without_flags = False


class Script:
    """A Lua script from a file in ``storage/lua`` or in a folder of an extension.

    Args:
        name: file name without ``.lua``.
        folder: folder of the file, for example ``importlib.resources.files("my_extension.lua")`` or a Path.
        source: the text, instead of a file.
    """

    def __init__(self, name: str, folder: Traversable | None = None, *, source: str = "") -> None:
        self.name = name
        self.source = source or ((folder or _LUA) / f"{name}.lua").read_text("utf-8")
        self._use(self.source)
        with _lock:
            _every.add(self)
            if _without_flags:
                self.without_flags()

    def __reduce__(self) -> tuple[Callable[[str, str], Script], tuple[str, str]]:
        return _same, (self.name, self.source)

    def _use(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def declared(self, kind: str) -> tuple[int, bool]:
        """Return the number of ``KEYS`` or ``ARGV`` that the header declares, and whether there may be more."""
        found = re.findall(rf"^-- {kind}\[(\d+)(\.\.\.)?\] ", self.source, re.MULTILINE)
        return max((int(number) for number, _ in found), default=0), any(more for _, more in found)

    def without_flags(self) -> None:
        """Drop the shebang line, for servers that reject script flags (rule 26)."""
        if self.text.startswith("#!"):
            self._use(self.text.partition("\n")[2])

    def by_hash(self, keys: Sequence[str], arguments: Sequence[Argument]) -> Command:
        return ("EVALSHA", self.sha, len(keys), *keys, *arguments)

    def by_text(self, keys: Sequence[str], arguments: Sequence[Argument]) -> Command:
        return ("EVAL", self.text, len(keys), *keys, *arguments)


@cache
def _same(name: str, source: str) -> Script:
    """Return this process's script with a source: others compare scripts by identity."""
    with _lock:
        known = next((script for script in _every if script.source == source), None)
    return known or Script(name, source=source)


Call: TypeAlias = tuple[Script, Sequence[str], Sequence[Argument]]
"""A script with its keys and arguments."""


class RunsScripts(Protocol):
    """The part of `Redis` that runs scripts; importing the class would be circular."""

    keys: Keys

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument] = ()) -> Any: ...


COMMANDS = Script("commands")


def run_together(redis: RunsScripts, *commands: Command) -> list[Any]:
    """Run commands as one step, and return their replies. The second word of each is its key.

    A full server accepts them too, which refuses plain writes and transactions.

    Raises:
        RedisFailure: a command failed; those before it were executed.
    """
    arguments: list[Argument] = []
    for name, _, *rest in commands:
        arguments += (name, len(rest), *rest)
    replies: list[Any] = redis.run(COMMANDS, [str(key) for _, key, *_ in commands], arguments)
    return replies


def flags_are_accepted(redis: RunsScripts) -> bool:
    """Run one script with flags. False if the server runs only scripts without flags.

    Raises:
        RedisRefused: the server runs no scripts for this user.
        RedisUnavailable: the server cannot be reached.
    """
    probe = Script("probe", source="#!lua flags=no-writes,allow-oom\nreturn 1")
    try:
        redis.run(probe, [])
    except RedisRefused:
        probe.without_flags()
        redis.run(probe, [])
        return False
    return True


def drop_flags() -> None:
    """Send all scripts of this process without flags. Scripts that write then fail when memory is full."""
    global _without_flags  # noqa: PLW0603 - scripts are constants of their modules, and so is this
    with _lock:
        _without_flags = True
        for script in list(_every):
            script.without_flags()
