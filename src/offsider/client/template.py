"""The bytes that pushes of one job share, made once for each job and each set of options of ``using``. No I/O.

Usual pushes have positional arguments, run at once, and no middleware, hook or extension looks at them. They are
prepared in half the time of others, which are prepared one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from offsider.client.alike import PayloadTemplate
from offsider.config.hooks import Prepared
from offsider.core.arguments import SCALARS, check_json
from offsider.core.compression import SMALL_BYTES
from offsider.core.payload import check_nesting, encode_text, new_jid, new_jids, stamp
from offsider.runtime.middleware import Push
from offsider.runtime.propagation import stamps
from offsider.storage.redis import RedisSettings

#: Mark the places of the times. Random, so that no option can contain them.
_CREATED, _ENQUEUED = new_jids(2)


class PushTemplate:
    """The common part of usual pushes.

    Args:
        push: as the attribute.
        settings: the section of its server.

    Attributes:
        push: a push with the common values.
    """

    def __init__(self, push: Push, settings: RedisSettings) -> None:
        self.push = push
        self._settings = settings
        self._job: Any = push.job
        self._queue, self._server = push.payload.get("queue", "default"), push.server
        self._payload: dict[str, Any] = {**push.payload, "created_at": _CREATED, "enqueued_at": _ENQUEUED}
        text = PayloadTemplate(self._payload)
        before, _, rest = text.tail.partition(encode_text(_CREATED))
        between, _, after = rest.partition(encode_text(_ENQUEUED))
        self._parts = text.head, text.middle, before, between, after
        #: Numbers of arguments that fit.
        self._fitting: set[int] = set()

    def fill(self, args: Sequence[Any], now: float) -> Prepared | None:
        """Return a push with these arguments; None if they need a closer look."""
        number = len(args)
        if number not in self._fitting:
            if not self._job.fits(number, number):
                return None
            self._fitting.add(number)
        are_scalars = SCALARS.issuperset(map(type, args))
        if not are_scalars and any(check_json(value) is not None for value in args):
            return None
        head, middle, before, between, after = self._parts
        time = stamp(now, self._settings.wire_version)
        at = str(time)
        context = stamps()
        more = _texts(context, self._payload) if context else ""
        jid = new_jid()
        try:
            raw = f"{head}{encode_text(args)}{middle}{jid}{before}{at}{more}{between}{at}{after}".encode()
            if not are_scalars:
                check_nesting(raw, {"args": args})
        except ValueError:  # raised again with the name of the job
            return None
        if len(raw) > SMALL_BYTES:
            return None
        payload: Any = {**context, **self._payload} if context else self._payload.copy()
        payload["args"], payload["jid"] = [*args], jid
        payload["created_at"] = payload["enqueued_at"] = time
        return Prepared(payload, raw, self._queue, None, False, self._server)


def _texts(context: Mapping[str, Any], payload: Mapping[str, Any]) -> str:
    return "".join(f",{encode_text(key)}:{encode_text(context[key])}" for key in context if key not in payload)
