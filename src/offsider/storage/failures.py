"""From redis-py's exceptions to the errors of our own tree, by what the caller can do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsider.core.errors import (
    Fenced,
    OffsiderError,
    QueueFull,
    RedisRefused,
    RedisUnavailable,
)

if TYPE_CHECKING:
    from redis.exceptions import RedisError

#: The server answered, nothing was executed, and another connection (a new master) may accept it.
REROUTE = frozenset({"READONLY", "UNBLOCKED", "MASTERDOWN", "NOREPLICAS"})

# redis-py drops the code of these errors from the message, so the class has to tell it.
_CODES = {
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "NoScriptError": "NOSCRIPT",
    "NoPermissionError": "NOPERM",
    "MasterDownError": "MASTERDOWN",
    "AuthenticationError": "NOAUTH",
    "AuthenticationWrongNumberOfArgsError": "NOAUTH",
    "ExecAbortError": "EXECABORT",
    "MovedError": "MOVED",
    "AskError": "ASK",
    "ClusterCrossSlotError": "CROSSSLOT",
}


def translate(error: RedisError, *, sent: bool, server: str) -> OffsiderError:
    """The error of our tree that stands for ``error``.

    Args:
        error: what redis-py raised.
        sent: whether bytes of a command may have reached the server.
        server: the server's URL without its password, for the message.
    """
    # Imported here: `import offsider` must not load redis-py.
    from redis import exceptions

    code = error_code(error)
    if isinstance(error, exceptions.BusyLoadingError):
        return RedisUnavailable(f"{server} is still loading its data: {error}", ambiguous=False)
    if type(error).__name__ == "MasterNotFoundError":
        return RedisUnavailable(
            f"{server}: no Sentinel answered with a master: do they run, and is redis.sentinel_name right?",
            ambiguous=False,
        )
    if code != "NOAUTH" and isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError)):
        way_out = "" if sent else " (is it running? REDIS_URL, or its url in the configuration, names another one)"
        return RedisUnavailable(f"{server} cannot be reached: {error}{way_out}", ambiguous=sent)
    if code == "OOM":
        return QueueFull(
            f"{server} is out of memory and refuses writes: raise maxmemory, or let the workers drain the queues",
            code=code,
        )
    if code == "FENCED":
        return Fenced(f"{server}: this identity was declared dead", code=code)
    return RedisRefused(f"{server} refused the command: {error}", code=code)


def error_code(error: RedisError) -> str:
    """The first word of the server's error reply, for example ``WRONGTYPE``."""
    named = _CODES.get(type(error).__name__)
    if named is not None:
        return named
    word = str(error).partition(" ")[0]
    return word if word.isupper() else "ERR"
