"""Effects of a push: scripts of an extension that run in the script that stores the job.

An extension appends to ``config.push_effects``. Clients and the outbox run the effects of a job when they store it. A
job that the push guard refuses has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from offsider.runtime.middleware import Push

if TYPE_CHECKING:
    from offsider.storage.effects import Effect


class PushEffects(Protocol):
    """An entry of ``config.push_effects``. Must be thread-safe."""

    def concerns(self, push: Push) -> bool:
        """Return whether pushes with these options may have effects.

        Must be fast: it is called for each push, and for the template of a bulk push, whose arguments are not known.
        """
        ...

    def effects(self, push: Push, at: float | None) -> Sequence[Effect]:
        """Return the effects of one job. Must not change the payload.

        Called after client middleware and the push guard; for a job of the outbox once more when a worker stores it.
        Derive the effects from the payload only. If none of them has arguments, the jobs of a bulk push share those of
        the first (see `Effect.arguments`). The script may run twice for the same jid, because a client repeats a push
        whose reply was lost.

        Args:
            push: a push with the reason ``"push"``.
            at: epoch seconds when the job is due; None for now.
        """
        ...


def effects_of(entries: Sequence[PushEffects], push: Push, at: float | None) -> Sequence[Effect]:
    """Return the effects of one job from all entries."""
    found = [effects for entry in entries if entry.concerns(push) and (effects := entry.effects(push, at))]
    return found[0] if len(found) == 1 else [effect for effects in found for effect in effects]
