"""Jobs of a bulk push that differ only in arguments and jid: built, encoded and stored together. No I/O.

1. `Alike` has one push for all, which is enough for most steps.
2. A `PayloadTemplate` encodes the shared values once, and is filled in for each job.
3. `PreparedAlike` are the prepared jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias, cast, overload

from offsider.config.hooks import Prepared
from offsider.core.arguments import encode_scalars
from offsider.core.payload import JobPayload, encode_text
from offsider.runtime.middleware import Push
from offsider.storage.effects import Effect


class Alike:
    """Pushes that differ only in arguments and jid. Iterating creates each push; most callers need only the template.

    Attributes:
        template: a push with the shared values. Changing it changes all pushes.
        calls: the positional arguments of each.
        jids: the id of each.
    """

    def __init__(self, template: Push, calls: Sequence[list[Any]], jids: Sequence[str]) -> None:
        self.template = template
        self.calls = calls
        self.jids = jids

    def __len__(self) -> int:
        return len(self.jids)

    def __iter__(self) -> Iterator[Push]:
        return map(push_like, repeat(self.template), self.calls, self.jids)


def push_like(template: Push, args: list[Any], jid: str) -> Push:
    """Return a push with its own arguments and jid, and the other values of the template."""
    payload = filled(template.payload, args, jid)
    tags = payload.get("tags")
    if tags is not None:
        payload["tags"] = list(tags)  # middleware may tag a single job
    return Push(payload=payload, reason="push", job=template.job, server=template.server)


Pushes: TypeAlias = "Alike | Sequence[Push]"


def templates(pushes: Pushes) -> Sequence[Push]:
    """Return one push for all of `Alike`, to read or change the shared values; otherwise each push."""
    return (pushes.template,) if isinstance(pushes, Alike) else pushes


def jids_of(pushes: Pushes) -> Sequence[str]:
    """Return the id of each push."""
    return pushes.jids if isinstance(pushes, Alike) else [push.payload.get("jid", "") for push in pushes]


class PayloadTemplate:
    """Produces the bytes of `core.payload.encode`, in a fraction of the time.

    Args:
        payload: all keys of the jobs in their order, ``args`` before ``jid``, with the common values.

    Attributes:
        head, middle, tail: the text before the arguments, between them and the jid, and after the jid.

    Raises ValueError, TypeError or RecursionError if a common value is not JSON.
    """

    def __init__(self, payload: Mapping[str, Any]) -> None:
        items = list(payload.items())
        keys = list(payload)
        args, jid = keys.index("args"), keys.index("jid")
        self.head = "".join(["{", *(f"{item}," for item in _texts(items[:args])), '"args":'])
        self.middle = "".join([",", *(f"{item}," for item in _texts(items[args + 1 : jid])), '"jid":"'])
        self.tail = "".join(['"', *(f",{item}" for item in _texts(items[jid + 1 :])), "}"])

    def fill(self, args: Sequence[Any], jid: str) -> bytes:
        """Encode one job. ``jid`` consists of hex digits, which need no escaping.

        Raises ValueError, TypeError or RecursionError for arguments that are not JSON.
        """
        return f"{self.head}{encode_text(args)}{self.middle}{jid}{self.tail}".encode()

    def fill_all(self, calls: Sequence[list[Any]], jids: Sequence[str]) -> list[bytes] | None:
        """Encode jobs as `fill` does, in half the time; None if an argument is not a scalar that JSON can store."""
        texts = encode_scalars(calls)
        if texts is None:
            return None
        head, middle, tail = f"{self.head}[", f"]{self.middle}", self.tail
        try:
            return [f"{head}{text}{middle}{jid}{tail}".encode() for text, jid in zip(texts, jids, strict=True)]
        except UnicodeEncodeError:  # a lone surrogate
            return None


def _texts(items: Iterable[tuple[str, Any]]) -> Iterable[str]:
    return (f"{encode_text(key)}:{encode_text(value)}" for key, value in items)


class PreparedAlike(Sequence[Prepared]):
    """Jobs of a bulk push that share all but arguments and jid, ready to be stored in one queue.

    Making one takes as long as encoding it, so code that needs only ``raws`` does not iterate.

    Attributes:
        template: the payload that they share.
        queue, server, effects: as in `Prepared`, of all of them.
        raws, calls, jids: the bytes of the payload, the arguments and the id of each.
    """

    def __init__(
        self,
        template: JobPayload,
        raws: Sequence[bytes],
        calls: Sequence[list[Any]],
        jids: Sequence[str],
        *,
        server: str,
    ) -> None:
        self.template = template
        self.queue = template.get("queue", "default")
        self.server = server
        self.raws = raws
        self.calls = calls
        self.jids = jids
        self.effects: Sequence[Effect] = ()

    def __len__(self) -> int:
        return len(self.raws)

    @overload
    def __getitem__(self, index: int) -> Prepared: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Prepared]: ...
    def __getitem__(self, index: int | slice) -> Prepared | Sequence[Prepared]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        payload = filled(self.template, self.calls[index], self.jids[index])
        return Prepared(payload, self.raws[index], self.queue, None, server=self.server, effects=self.effects)


def passed(batch: Sequence[Prepared | None]) -> Sequence[Prepared]:
    """Return the jobs of a batch that middleware has not canceled."""
    return batch if isinstance(batch, PreparedAlike) else [job for job in batch if job is not None]


def stored_jids(batch: Sequence[Prepared | None], stopped: Collection[str] = ()) -> Sequence[str]:
    """Return the id of each job of a batch; empty for those that middleware canceled or the push guard refused."""
    if isinstance(batch, PreparedAlike) and not stopped:
        return batch.jids
    return ["" if job is None or (stopped and job.jid in stopped) else job.jid for job in batch]


def filled(template: JobPayload, args: list[Any], jid: str) -> JobPayload:
    """Return the payload of a job that shares all keys but these two with others."""
    return cast(JobPayload, {**template, "args": args, "jid": jid})
