"""The tabs Scheduled, Retries and Dead: jobs with a time, and what can be done with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from offsider.cli.plain import listed_arguments, plain
from offsider.cli.quantities import ago
from offsider.cli.top.hunt import Hunt
from offsider.cli.top.sheet import Action, Row, Sheet, View
from offsider.core.errors import MalformedPayload
from offsider.inspector import DeadSet, JobSet, RetrySet, ScheduledSet, SetEntry
from offsider.wiring.config import Config


class SetTab:
    """One of the sorted sets.

    Args:
        jobs: the set.
        fails: whether its jobs have failed, so that there are errors to be shown.
        newest_first: as Sidekiq shows the dead.
        actions: by key.
    """

    def __init__(
        self,
        title: str,
        jobs: JobSet,
        config: Config,
        actions: Mapping[str, Action],
        *,
        fails: bool,
        newest_first: bool = False,
    ) -> None:
        self.title = title
        self.actions = actions
        self._jobs = jobs
        self._config = config
        self._fails = fails
        self._newest_first = newest_first
        self._hunt: Hunt | None = None

    def read(self, view: View) -> Sheet:
        if view.text:
            return self._filtered(view)
        self._hunt = None
        entries = self._jobs.page(view.page * view.size, view.size, newest_first=self._newest_first)
        return Sheet(self._columns, self._rows(entries), len(self._jobs))

    def _filtered(self, view: View) -> Sheet:
        if self._hunt is None or self._hunt.text != view.text:
            self._hunt = Hunt(self._jobs, view.text)
        found = self._hunt.look()
        entries = found.entries[::-1] if self._newest_first else found.entries
        start = view.page * view.size
        shown = [entry for entry in entries[start : start + view.size] if self._hunt.still_there(entry)]
        return Sheet(self._columns, self._rows(shown), len(entries), note=found.note)

    @property
    def _columns(self) -> tuple[str, ...]:
        return ("WHEN", "QUEUE", "JOB", *(["ERROR"] if self._fails else []), "ARGUMENTS")

    def _rows(self, entries: Sequence[SetEntry]) -> list[Row]:
        now = self._config.clock.now()
        # Not the key alone: bytes that are no job have no id.
        return [Row(f"{entry.key} {hash(entry.raw)}", self._cells(entry, now), entry) for entry in entries]

    def _cells(self, entry: SetEntry, now: float) -> tuple[str, ...]:
        tries = f" ({entry.retry_count + 1})" if entry.retry_count is not None else ""
        name = "no job" if entry.malformed else entry.display_class + tries
        error = [plain(f"{entry.error_class}: {entry.error_message}".strip(": "), 40)] if self._fails else []
        arguments = _beginning(entry.raw) if entry.malformed else listed_arguments(entry)
        return (ago(entry.at, now), plain(entry.queue, 12), plain(name, 30), *error, arguments)


def _beginning(raw: bytes) -> str:
    """Of bytes that are no job."""
    return plain(raw[:100].decode("utf-8", "replace"), 60)


def set_tabs(config: Config) -> tuple[SetTab, SetTab, SetTab]:
    """Scheduled, Retries and Dead."""
    delete = Action("Delete", "deleted", asks=True, act=_delete)
    retry = Action("Retry", "put into their queues", asks=False, act=_runnable(SetEntry.retry))
    enqueue = Action("Enqueue", "put into their queues", asks=False, act=_runnable(SetEntry.add_to_queue))
    kill = Action("Kill", "moved to the dead set", asks=True, act=_kill)
    return (
        SetTab("Scheduled", ScheduledSet(config), config, {"D": delete, "E": enqueue, "K": kill}, fails=False),
        SetTab("Retries", RetrySet(config), config, {"D": delete, "R": retry, "K": kill}, fails=True),
        SetTab("Dead", DeadSet(config), config, {"D": delete, "R": retry}, fails=True, newest_first=True),
    )


def _delete(entry: SetEntry) -> bool:
    return entry.delete()


def _kill(entry: SetEntry) -> bool:
    return entry.kill()


def _runnable(move: Callable[[SetEntry], bool]) -> Callable[[SetEntry], bool]:
    """What is no job cannot be run, and stays."""

    def act(entry: SetEntry) -> bool:
        try:
            return move(entry)
        except MalformedPayload:
            return False

    return act
