"""Translates redis-py's exceptions to offsider errors, by the possible reaction of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from offsider.core.errors import (
    Fenced,
    OffsiderError,
    QueueFull,
    RedisRefused,
    RedisUnavailable,
)

if TYPE_CHECKING:
    from redis.exceptions import RedisError

#: Error codes of a Cluster after which nothing was executed, and why it cannot execute the command now.
REDIRECTIONS = {
    "MOVED": "its slot has moved to another node",
    "ASK": "its slot is moving to another node",
    "TRYAGAIN": "its slot is moving to another node",
    "CLUSTERDOWN": "the Cluster is down",
}
#: Error codes after which nothing was executed, and another connection (to a new master) may accept the command.
REROUTE = frozenset({"READONLY", "UNBLOCKED", "MASTERDOWN", "NOREPLICAS", *REDIRECTIONS})
#: Error codes that only Cluster nodes return.
CLUSTER = {*REDIRECTIONS, "CROSSSLOT"}
#: Completes a sentence that begins with the server's URL.
IS_CLUSTER = "is a node of a Cluster: write its URL as redis+cluster://host:port (TLS: rediss+cluster://)"

#: Command that detects a Cluster node. Every user may run HELLO; an ACL can forbid INFO.
CLUSTER_QUESTION = ("HELLO",)


def check_no_cluster(reply: Any, server: str) -> None:
    """Check the reply to `CLUSTER_QUESTION`. An error reply is accepted: a proxy may not know the command.

    Raises:
        RedisRefused: the server is a node of a Cluster.
    """
    if isinstance(reply, list) and b"cluster" in cast("list[object]", reply):
        raise RedisRefused(f"{server} {IS_CLUSTER}", code="CLUSTER")


# redis-py drops the code of these errors from the message, so it is derived from the class.
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
    "TryAgainError": "TRYAGAIN",
    "ClusterDownError": "CLUSTERDOWN",
    "ClusterCrossSlotError": "CROSSSLOT",
}


def translate(error: RedisError | OSError, *, sent: bool, server: str) -> OffsiderError:
    """Return the offsider error for ``error``.

    Args:
        error: the exception of redis-py, or of the socket.
        sent: whether bytes of a command may have reached the server.
        server: the server's URL without its password, for the message.
    """
    # Imported here: `import offsider` must not load redis-py.
    from redis import exceptions

    code = error_code(error)
    unusable = _why_unusable(error, code, server)
    if unusable:
        return RedisUnavailable(f"{server}{unusable}", ambiguous=False, code=code if code in REDIRECTIONS else "")
    if code != "NOAUTH" and isinstance(error, (OSError, exceptions.ConnectionError, exceptions.TimeoutError)):
        plain = server.partition("://")[0].replace("rediss", "redis")
        tls = f", or {plain}:// in its URL if it does not use TLS" if server.startswith("rediss") else ""
        way_out = f" (start it, or set REDIS_URL or its url in the configuration to another server{tls})"
        return RedisUnavailable(f"{server} cannot be reached: {error}{'' if sent else way_out}", ambiguous=sent)
    if code == "OOM":
        return QueueFull(
            f"{server} is out of memory and refuses writes: raise maxmemory, or let the workers drain the queues",
            code=code,
        )
    if code == "FENCED":
        return Fenced(f"{server}: this identity was declared dead", code=code)
    said = IS_CLUSTER if code in CLUSTER and "+cluster:" not in server else f"refused the command: {error}"
    if isinstance(error, exceptions.InvalidResponse):
        said = f"is not a Redis server ({error}): set REDIS_URL or its url in the configuration"
    return RedisRefused(f"{server} {said}", code=code)


def _why_unusable(error: RedisError | OSError, code: str, server: str) -> str:
    """Return why a server that replied executes nothing now; empty if that is not its reply."""
    from redis import exceptions

    if isinstance(error, exceptions.BusyLoadingError):
        return f" is still loading its data: {error}"
    if type(error).__name__ == "MasterNotFoundError":
        return ": no Sentinel returned a master: check that they run, and that redis.sentinel_name is correct"
    if code in REDIRECTIONS and "+cluster:" in server:
        return f" cannot be used: {REDIRECTIONS[code]} ({code})"
    return ""


def error_code(error: RedisError | OSError) -> str:
    """Return the first word of an error reply, for example ``WRONGTYPE``."""
    named = _CODES.get(type(error).__name__)
    if named is not None:
        return named
    word = str(error).partition(" ")[0]
    return word if word.isupper() else "ERR"
