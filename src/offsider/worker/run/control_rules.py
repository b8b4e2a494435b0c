"""What the controls and the limits in code mean for each job in this process.

1. `update` runs once a second in the thread that reads the controls: it reads the table if its version has changed, and
   evaluates the limits in code every ten seconds.
2. `rule_of` returns what applies to a class, or None: one lookup in a dict. `decide` adds the key and the queue.
3. `group` returns the limits of a group, for the service that resumes held jobs.
4. The worker counts deferred and dropped jobs and writes the counts once a second. The first worker that reads an
   expired control deletes it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from offsider.core.characteristics import Characteristics
from offsider.core.controls import QUEUE, Control, class_of, group_name, is_class, selector
from offsider.core.errors import RedisFailure
from offsider.inspector.process import ProcessSet
from offsider.jobs import registry
from offsider.jobs.key import Key
from offsider.storage import control_table, quarantine, slots
from offsider.storage.slots import ANY_RATE, Rate, SlotGroup

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.core.characteristics import Query
    from offsider.jobs.declared import Declared
    from offsider.storage.redis import Redis

logger = logging.getLogger("offsider")

T = TypeVar("T")

#: How often the limits in code are evaluated: functions are called and the fleet's threads counted.
EVALUATE_SECONDS = 10.0
DECLARE_SECONDS = slots.DECLARED_SECONDS / 4

_UNDECLARED = Characteristics()
_NO_LIMITS = (0, ANY_RATE)


class Decision(NamedTuple):
    """What happens to a job: ``stop`` defers or drops it; otherwise it needs a slot in each group."""

    stop: Control | None = None
    groups: tuple[SlotGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlRule:
    """What applies to the jobs of one class.

    Attributes:
        names: the name of the declared job, and its aliases.
        controls: of the class and of the selectors that match it, the most specific first.
        limit, rate: the limits in code.
        key: its key function; None if it has none.
    """

    names: tuple[str, ...]
    controls: tuple[Control, ...] = ()
    limit: int = 0
    rate: Rate = ANY_RATE
    key: Key | None = None


class ControlRules:
    """The controls and limits in one worker. All its threads share one.

    Args:
        config: has the limits in code.
        redis: the server that stores the controls.

    Attributes:
        known: what applies to the classes that were looked up since the last change; None if their jobs just run.
    """

    def __init__(self, config: Config, redis: Redis) -> None:
        self._config = config
        self._redis = redis
        self._on: Mapping[str, Control] = {}
        self._selectors: Sequence[tuple[Query, Control]] = ()
        #: Classes with a control of a key, and whether a queue has a control other than its pause.
        self._keyed: frozenset[str] = frozenset()
        self._has_queues = False
        self.known: dict[str, ControlRule | None] = {}
        self._in_code: dict[str, tuple[int, Rate]] = {}
        self._published: Mapping[str, tuple[int, Rate]] = {}
        self._reported: Mapping[str, tuple[int, Rate]] = {}
        self._threads = 0
        self._evaluate_at = self._declare_at = 0.0
        self._acted: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._is_full = False

    # ---------------------------------------------------------------------------------- decisions

    def rule_of(self, stored_name: str) -> ControlRule | None:
        """Return what applies to a class; None if its jobs just run."""
        known = self.known
        if stored_name not in known:
            known[stored_name] = self._rule(stored_name)
        return known[stored_name]

    def _rule(self, stored_name: str) -> ControlRule | None:
        job = registry.peek(stored_name)
        names = (stored_name,) if job is None else (job.name, *job.aliases)
        attributes = (_UNDECLARED if job is None else job.characteristics).attributes(names[0])
        own = [self._on[name] for name in names if name in self._on][:1]
        shared = [control for query, control in self._selectors if query.matches(attributes)]
        limit, rate = self._limits_of(job)
        if not (own or shared or limit or rate.starts or self._has_queues or self._keyed.intersection(names)):
            return None
        return ControlRule(names, (*own, *shared), limit, rate, None if job is None else Key.of(job))

    def decide(self, rule: ControlRule, queue: str, key: str = "") -> Decision:
        """Return what happens to a job of a class, with its queue and key."""
        on, own, is_limited = self._on, SlotGroup(group_name(rule.names[0], key), rule.limit, rule.rate), False
        shared: list[SlotGroup] = []
        of_key = [on[name] for name in (group_name(name, key) for name in rule.names) if name in on] if key else []
        of_queue = [on[QUEUE + queue]] if self._has_queues and QUEUE + queue in on else []
        for control in (*of_key[:1], *rule.controls, *of_queue):
            is_own = class_of(control.subject) in rule.names
            match control.action:
                case "defer" | "drop":
                    return Decision(control)
                case "run":
                    if not is_limited:
                        own = own._replace(limit=0, rate=ANY_RATE)
                    break
                case "hold" if is_own:
                    own = own._replace(limit=-1)
                    break
                case "hold":
                    shared.append(SlotGroup(control.subject, -1))
                    break
                case "limit" if not is_own:
                    shared.append(SlotGroup(control.subject, control.limit))
                case "limit":
                    if not is_limited:
                        own, is_limited = own._replace(limit=control.limit), True
        return Decision(None, (*((own,) if own.limit or own.rate.starts else ()), *shared))

    def group(self, name: str) -> SlotGroup:
        """Return the limits of a group with held jobs."""
        if not is_class(name):
            control = self._on.get(name)
            limits = {"limit": control.limit, "hold": -1} if control is not None else {}
            return SlotGroup(name, limits.get("" if control is None else control.action, 0))
        class_name = class_of(name)
        rule = self._rule(class_name)
        reported = self._reported.get(class_name, _NO_LIMITS)
        if registry.peek(class_name) is None and reported != _NO_LIMITS:
            rule = ControlRule((class_name,), () if rule is None else rule.controls, *reported)
        if rule is None:
            return SlotGroup(name, 0)
        key = name[len(class_name) + 1 : -1]
        groups = self.decide(rule, "", key).groups
        return groups[0] if groups and groups[0].name == group_name(rule.names[0], key) else SlotGroup(name, 0)

    def count(self, control: Control) -> None:
        """Count a job that a control deferred or dropped."""
        with self._lock:
            self._acted[control.subject] += 1

    def read_reported(self) -> None:
        """Read the limits that other workers published, for classes that are not declared here."""
        self._reported = slots.declared(self._redis, self._config.clock.now())

    # ----------------------------------------------------------------------------------- updating

    def update(self, *, changed: bool) -> None:
        """Read the controls if they changed or one of them can expire, and write the counts."""
        if changed or any(control.until is not None for control in self._on.values()):
            table = control_table.read(self._redis)
            self._show(table.on)
            for subject, stored in table.over.items():
                control_table.forget(self._redis, subject, stored)
            for control in table.on.values():
                if not control.since:
                    control_table.adopt(self._redis, control)
        now = time.monotonic()
        if self._config.limits is not None and now >= self._evaluate_at:
            self._evaluate(now)
        self._write_counts()

    def finish(self) -> None:
        self._write_counts()

    def _show(self, on: Mapping[str, Control]) -> None:
        before = self._on
        if on == before:
            return
        self._on = dict(on)
        queries = [(selector(subject), control) for subject, control in sorted(on.items())]
        found = [(query, control) for query, control in queries if query is not None]
        self._selectors = sorted(found, key=lambda pair: -sum(map(len, pair[0].clauses)))
        self._keyed = frozenset(class_of(subject) for subject in on if class_of(subject) != subject)
        self._has_queues = any(
            subject.startswith(QUEUE) and control.action != "hold" for subject, control in on.items()
        )
        self.known = {}
        for subject, control in on.items():
            if control != before.get(subject):
                logger.warning("jobs of %s are %s from now on%s", subject, control.described, _origin(control))
        for subject in before.keys() - on.keys():
            logger.warning("jobs of %s run again: their control has ended", subject)

    def _evaluate(self, now: float) -> None:
        jobs, limits = registry.all_jobs(), self._config.limits
        if limits is not None and limits.wants_threads(jobs):
            self._threads = ProcessSet(self._config).total_concurrency
        found = {job.name: self._evaluated(job) for job in jobs}
        if found != self._in_code:
            self._in_code, self.known = found, {}
        self._evaluate_at = now + EVALUATE_SECONDS
        limited = {name: pair for name, pair in found.items() if pair != _NO_LIMITS}
        if limited != self._published or now >= self._declare_at:
            gone = dict.fromkeys(self._published.keys() - limited.keys(), _NO_LIMITS)
            slots.declare(self._redis, limited | gone, self._config.clock.now())
            self._published, self._declare_at = limited, now + DECLARE_SECONDS

    def _limits_of(self, job: Declared | None) -> tuple[int, Rate]:
        if job is None or self._config.limits is None:
            return _NO_LIMITS
        if job.name not in self._in_code:
            self._in_code[job.name] = self._evaluated(job)
        return self._in_code[job.name]

    def _evaluated(self, job: Declared) -> tuple[int, Rate]:
        """Return the limits in code; if one cannot be evaluated, the previous one."""
        limits, (limit, rate) = self._config.limits, self._in_code.get(job.name, _NO_LIMITS)
        if limits is None:
            return _NO_LIMITS
        return (
            self._tried(job, lambda: limits.limit_of(job, self._config, self._threads), limit),
            self._tried(job, lambda: limits.rate_of(job), rate),
        )

    def _tried(self, job: Declared, evaluate: Callable[[], T], otherwise: T) -> T:
        try:
            return evaluate()
        except Exception as error:  # noqa: BLE001  # a function of the application
            self._config.handle_error(error, {"context": f"evaluating the limits of {job.name}"})
            return otherwise

    def _write_counts(self) -> None:
        """Write the counts. If that fails, the next write includes them."""
        with self._lock:
            acted, self._acted = self._acted, Counter()
        if not acted:
            return
        try:
            control_table.count(self._redis, acted)
        except RedisFailure as error:
            logger.debug("cannot write the counts of controls, trying again later: %s", error)
            with self._lock:
                self._acted.update(acted)
            return
        with suppress(RedisFailure):
            self._trim_quarantine()

    def _trim_quarantine(self) -> None:
        quarantine.trim(self._redis)
        was_full, self._is_full = self._is_full, quarantine.size(self._redis) >= quarantine.MAX_JOBS
        if self._is_full and not was_full:
            logger.warning(
                "the quarantine has %d jobs: jobs that a control drops are deleted from now on", quarantine.MAX_JOBS
            )


def _origin(control: Control) -> str:
    who = f", by {control.by}" if control.by else ""
    return f"{who}: {control.reason}" if control.reason else who
