"""The callbacks of a new batch: jobs that are prepared when they are declared, and pushed by a script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from offsider.client.prepared import declared_of
from offsider.core.errors import InvalidOptions
from offsider.core.payload import decode, encode
from offsider.core.suggestions import suggest
from offsider.ext.batches.block import check_server
from offsider.ext.batches.store import CALLBACK_OF
from offsider.jobs import registry
from offsider.jobs.clients import Clients

if TYPE_CHECKING:
    from offsider.config.installation import Installation

Event: TypeAlias = Literal["complete", "success", "death"]
EVENTS: tuple[str, ...] = get_args(Event)


class Callbacks:
    """The callbacks of one batch, by event.

    Args:
        here: the server of the batch.
        queue: queue of all callbacks; empty: the queue of each callback job.
    """

    def __init__(self, here: Installation, bid: str, queue: str) -> None:
        self._here = here
        self._bid = bid
        self._queue = queue
        self._prepared: dict[str, list[dict[str, Any]]] = {}

    def add(self, event: Event, callback: object, options: Mapping[str, Any] | None) -> None:
        """Add a callback; see `Batch.on`."""
        if event not in EVENTS:
            raise InvalidOptions(f"batches have no event {event!r}{suggest(event, EVENTS)}; use one of {EVENTS}")
        if options is not None and not isinstance(cast("object", options), dict):
            raise InvalidOptions(f"the options of a callback must be a dict, got {type(options).__name__}")
        job = registry.find(callback) if isinstance(callback, str) else callback
        if declared_of(job) is None:
            raise InvalidOptions(f"a callback must be a declared job or the name of one, got {callback!r}")
        self._prepared.setdefault(event, []).append(self._prepare(job, dict(options or {})))

    def fields(self) -> dict[str, str]:
        """Return the fields of the batch that describe its callbacks."""
        queues = sorted({call["queue"] for each in self._prepared.values() for call in each})
        return {"queues": json.dumps(queues)} | {
            f"on_{event}": json.dumps(each) for event, each in self._prepared.items()
        }

    def jids(self, event: Event) -> list[str]:
        """Return the jids of the callbacks of an event."""
        return [call["jid"] for call in self._prepared.get(event, ())]

    def _prepare(self, job: object, options: Mapping[str, Any]) -> dict[str, Any]:
        """Prepare a callback; a script adds ``enqueued_at`` when it pushes the job."""
        client = Clients.of(self._here).blocking
        item: dict[str, Any] = {"class": job, "args": [self._bid, options], CALLBACK_OF: self._bid}
        if self._queue:
            item["queue"] = self._queue
        push = client.build(item)
        check_server(self._here, self._bid, f"the callback {push.payload['class']}", push.server or self._here.name)
        prepared = client.prepare(push)
        if prepared is None:
            raise InvalidOptions(f"client middleware canceled the push of the callback {push.payload['class']}")
        payload = decode(prepared.raw)
        payload.pop("enqueued_at", None)
        return {
            "name": payload["class"],
            "jid": prepared.jid,
            "queue": prepared.queue,
            "wire": self._here.settings.wire_version,
            "payload": encode(payload)[:-1].decode(),
        }
