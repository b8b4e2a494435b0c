"""One connection per process and server that listens to channels, for all waiting threads and coroutines.

1. `watch` adds a callback. The thread subscribes to its channel, and calls it once when the server has confirmed: what
   was published before must be read from the server, and what is published later calls it again.
2. After a lost connection the thread connects again and subscribes to all channels; the confirmations call all
   callbacks, so that each caller reads what it may have missed.
3. The thread ends when no channel was watched for a while. It sends nothing while it waits.

Only the thread uses the connection. TCP keepalive detects a server that has vanished.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias, cast

from offsider.core.errors import RedisFailure
from offsider.runtime.forks import this_process

if TYPE_CHECKING:
    from offsider.config.installation import Installation
    from offsider.storage.redis import Wire

Callback: TypeAlias = Callable[["bytes | None"], None]
"""Gets each message; None when the channel is subscribed, at first or again. Called in the thread: must be fast."""

IDLE_SECONDS = 1.0
MIN_PAUSE_SECONDS = 0.05
MAX_PAUSE_SECONDS = 2.0
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


class Subscriber:
    """Listens to channels of one server. Thread-safe; works in a forked child.

    Args:
        server: the server.
    """

    def __init__(self, server: Installation) -> None:
        self._server = server
        self._reset()

    @classmethod
    def of(cls, server: Installation) -> Subscriber:
        """Return the subscriber that this process shares for a server."""
        return server.shared.get(cls, lambda: cls(server))

    def _reset(self) -> None:
        self._pid = this_process.pid
        self._lock = threading.Lock()
        self._channels: dict[str, list[Callback]] = {}
        self._confirmed: set[str] = set()
        #: Whether the thread was woken, and has not updated its subscriptions since.
        self._has_changed = False
        self._wakeup: socket.socket | None = None
        self._pause_seconds = MIN_PAUSE_SECONDS

    def watch(self, channel: str, callback: Callback) -> None:
        """Call ``callback`` when the channel is subscribed, which may be now, and for each message."""
        if self._pid != this_process.pid:
            self._reset()  # the thread of the parent does not exist here
        with self._lock:
            callbacks = self._channels.setdefault(channel, [])
            callbacks.append(callback)
            confirmed = channel in self._confirmed
            if len(callbacks) == 1:
                self._wake()
        if confirmed:
            callback(None)

    def unwatch(self, channel: str, callback: Callback) -> None:
        with self._lock:
            callbacks = self._channels.get(channel, [])
            if callback in callbacks:
                callbacks.remove(callback)
                if not callbacks:
                    del self._channels[channel]
                    self._wake()

    @property
    def channels(self) -> int:
        """Number of watched channels."""
        return len(self._channels)

    def _wake(self) -> None:
        """Start the thread, or make it update its subscriptions. The caller holds the lock."""
        if self._wakeup is None:
            self._wakeup, wakeup = socket.socketpair()
            threading.Thread(target=self._run, args=(wakeup,), name="offsider-subscriber", daemon=True).start()
        elif not self._has_changed:
            self._has_changed = True
            self._wakeup.send(b"!")

    def _run(self, wakeup: socket.socket) -> None:
        wire = self._server.redis.own_wire()
        while True:
            try:
                wire.prepare()
                _keep_alive(wire.fileno())
                with self._lock:
                    self._confirmed.clear()
                if self._listen(wire, wakeup):
                    break
            except Exception as error:  # noqa: BLE001 - waiting callers depend on this thread
                wire.disconnect()
                if self._has_ended():
                    break
                if self._pause_seconds == MIN_PAUSE_SECONDS:
                    self._server.config.handle_error(error, {"context": "waiting for news of jobs"})
                time.sleep(self._pause_seconds)
                self._pause_seconds = min(2 * self._pause_seconds, MAX_PAUSE_SECONDS)
        wire.disconnect()
        wakeup.close()

    def _listen(self, wire: Wire, wakeup: socket.socket) -> bool:
        """Handle messages and changes; True if no channel was watched for a while, and the thread ends."""
        subscribed = self._update(wire, frozenset())
        with selectors.DefaultSelector() as selector:
            selector.register(wire.fileno(), selectors.EVENT_READ)
            selector.register(wakeup, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(None if self._channels else IDLE_SECONDS)]
                if not ready and self._has_ended():
                    return True
                if wakeup in ready:
                    wakeup.recv(4096)
                    subscribed = self._update(wire, subscribed)
                while wire.readable(0):
                    self._take(wire.receive())

    def _has_ended(self) -> bool:
        with self._lock:
            if self._channels or self._wakeup is None:
                return False
            self._wakeup.close()
            self._wakeup = None
            return True

    def _update(self, wire: Wire, subscribed: frozenset[str]) -> frozenset[str]:
        """Subscribe to the watched channels and to no others; return them."""
        with self._lock:
            self._has_changed = False
            channels = frozenset(self._channels)
            self._confirmed &= channels
        for kind, changed in (("SUBSCRIBE", channels - subscribed), ("UNSUBSCRIBE", subscribed - channels)):
            if changed:
                # `Wire` takes data on an idle connection for a lost one; on this connection it is a message.
                wire.awaited = 1
                wire.send([(kind, *changed)])
        return channels

    def _take(self, reply: object) -> None:
        if isinstance(reply, RedisFailure):
            raise reply
        kind, name, message = cast("tuple[bytes, bytes, bytes]", reply)
        channel = name.decode("utf-8", "surrogateescape")
        if kind not in (b"message", b"subscribe"):
            return
        self._pause_seconds = MIN_PAUSE_SECONDS  # the server has accepted the connection and the channel
        with self._lock:
            callbacks = [*self._channels.get(channel, ())]
            if kind == b"subscribe" and callbacks:
                self._confirmed.add(channel)
        for callback in callbacks:
            with suppress(RuntimeError):  # its event loop was closed
                callback(message if kind == b"message" else None)


def _keep_alive(descriptor: int) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):  # not on every system
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
