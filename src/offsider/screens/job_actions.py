"""The actions on stored jobs: one by one, on a selection, and on counted jobs of several places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from offsider.config.installation import Installation
from offsider.core.errors import MalformedPayload, RedisRefused
from offsider.core.segments import from_segment, segment
from offsider.core.wording import counted as number_of
from offsider.inspector import JobSet, Quarantine
from offsider.inspector.job_counts import Act, JobCounts
from offsider.inspector.job_place import JobPlace
from offsider.inspector.search import HELD, HELD_LISTS, QUARANTINE, QUEUE, Found, place_names, place_of

#: The reason passed to death handlers.
KILLED = "killed by an operator"


@dataclass(frozen=True)
class JobAction:
    """An action on stored jobs.

    Attributes:
        label: the verb of a button.
        done: its past form, before the number of jobs.
        kinds: where it is possible: ``retry``, ``schedule``, ``dead``, ``queue``, ``held``, ``quarantine``.
        one: acts on one job of a place; returns False if the job has left it.
        every: acts on the counted jobs of a place.
        danger: whether it asks first, because it cannot be undone or gives jobs up.
    """

    label: str
    done: str
    kinds: frozenset[str]
    one: Callable[[Any, Any], bool]
    every: Act
    danger: bool = False

    def fits(self, where: str) -> bool:
        """Whether it is possible in a place."""
        return where.partition(":")[0] in self.kinds


_LISTS = (QUEUE.rstrip(":"), HELD.rstrip(":"))
_SETS = ("retry", "schedule", "dead")
ACTIONS = {
    "retry": JobAction(
        "Retry", "Enqueued", frozenset({"retry", "dead"}), lambda _, entry: entry.retry(), JobSet.retry_all
    ),
    "add_to_queue": JobAction(
        "Add to queue",
        "Enqueued",
        frozenset({"schedule"}),
        lambda _, entry: entry.add_to_queue(),
        JobSet.enqueue_all,
    ),
    "restore": JobAction("Restore", "Restored", frozenset({QUARANTINE}), Quarantine.restore, Quarantine.restore_all),
    "quarantine": JobAction(
        "Quarantine",
        "Quarantined",
        frozenset({*_SETS, *_LISTS}),
        JobPlace[Any].quarantine,
        JobPlace[Any].quarantine_all,
    ),
    "kill": JobAction(
        "Kill",
        "Killed",
        frozenset({"retry"}),
        lambda _, entry: entry.kill(KILLED),
        lambda jobs, counted, budget_ms: jobs.kill_all(counted, budget_ms, KILLED),
        danger=True,
    ),
    "delete": JobAction(
        "Delete",
        "Deleted",
        frozenset({*_SETS, *_LISTS, QUARANTINE}),
        JobPlace[Any].delete,
        JobPlace[Any].delete_all,
        danger=True,
    ),
}


def key_of(found: Found) -> str:
    """Return the key of a job among those of all places; without the name of a held list, which may be an argument."""
    where = HELD_LISTS if found.where.startswith(HELD) else found.where
    return f"{segment(where)} {found.key}"


def act_on_keys(server: Installation, verb: str, keys: Iterable[str]) -> tuple[str, dict[str, object]]:
    """Change the jobs with some keys. Returns a message, and its numbers for programs."""
    action, done, gone = ACTIONS[verb], 0, 0
    refused: list[str] = []
    # Highest positions of a queue first, so that a removal does not shift jobs that are still to be removed.
    for key in reversed([*keys]):
        part, _, own = key.partition(" ")
        where = from_segment(part)
        try:
            acted = any(
                action.one(place, job)
                for name in (place_names(server, [where]) if action.fits(where) else ())
                if (place := place_of(server, name)) is not None and (job := place.entry(own)) is not None
            )
        except (MalformedPayload, RedisRefused) as error:
            refused.insert(0, str(error))
        else:
            done, gone = done + acted, gone + (not acted)
    text = f"{action.done} {number_of(done, 'job')}."
    text += f" {number_of(gone, 'job')} had already left." if gone else ""
    text += f" {number_of(len(refused), 'job')} could not be changed: {refused[0]}" if refused else ""
    return text, {"done_to": done, "gone": gone, "refused": refused}


def places_for(counts: JobCounts, verb: str) -> list[str]:
    """Return the counted places where an action is possible."""
    return [where for where in counts.places if ACTIONS[verb].fits(where)]


def act_on_counted(
    counts: JobCounts, verb: str, budget_ms: float | None, *, stop_at: int | None = None
) -> dict[str, Any]:
    """Change counted jobs for about ``budget_ms``, and return the numbers for `result`; call again to continue."""
    places = places_for(counts, verb)
    counts.act(verb, dict.fromkeys(places, ACTIONS[verb].every), budget_ms, stop_at=stop_at)
    counted = [counts.counted[where] for where in places]
    return {
        "done_to": sum(each.done for each in counted),
        "refused": sum(each.refused for each in counted),
        "changed": sum(each.changed for each in counted if each.finished),
        "matched": sum(map(len, counted)),
        "finished": all(each.finished for each in counted),
    }


def result(verb: str, numbers: dict[str, Any], about: str) -> str:
    """Return the message of `act_on_counted`.

    Args:
        verb: name of the action.
        numbers: its numbers.
        about: the places and the filter.
    """
    text = f"{ACTIONS[verb].done} {number_of(numbers['done_to'], 'job')} of {about}."
    if not numbers["finished"]:
        return text
    if numbers["refused"]:
        text += f" {number_of(numbers['refused'], 'job')} could not be changed."
    if numbers["changed"]:
        text += f" {number_of(numbers['changed'], 'job')} changed after the count and were skipped."
    return text
