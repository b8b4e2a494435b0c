"""Characteristics that a job declares, for routing rules and operators. Never stored in a payload."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from offsider.core.errors import InvalidOptions
from offsider.core.options import Urgency

URGENCIES = ("high", "low", "throttled")
BOUNDARIES = ("cpu", "memory", "none", "unknown")
#: One value of a query. No query could match a category in another format.
WORD = re.compile(r"[\w:.-]+")
_ODD_IN_QUEUES = re.compile(r"[^a-z0-9_.:-]")


@dataclass(frozen=True, slots=True)
class Characteristics:
    """The characteristics of one job.

    Attributes:
        urgency: how soon a run should start; ``"throttled"`` jobs may wait for a long time.
        resource_boundary: the resource that limits a run. ``"none"`` is the default; ``"unknown"`` means the same.
        feature_category: the part of the product, or the team, that owns the job; empty if not declared.
        external_dependencies: whether a run calls external services.
        tags: its labels.
        idempotent: running it twice is harmless.
        queue_namespace: prefix of its generated queue name; empty for none.
    """

    urgency: Urgency = "low"
    resource_boundary: Literal["cpu", "memory", "none"] = "none"
    feature_category: str = ""
    external_dependencies: bool = False
    tags: tuple[str, ...] = ()
    idempotent: bool = False
    queue_namespace: str = ""

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Characteristics:
        """Select the characteristics from declared options that `check_characteristics` accepted."""
        given = {key: declared[key] for key in CHARACTERISTICS if key in declared}
        if given.get("resource_boundary") == "unknown":
            given["resource_boundary"] = "none"
        return cls(**given, tags=tuple(declared.get("tags") or ()))

    def unique_until(self, options: Mapping[str, Any]) -> Any:
        """Return the option ``unique_until`` of a job, with GitLab's default for idempotent jobs."""
        said = options.get("unique_until")
        others = ("unique_for", "throttle", "debounce")
        if said is None and self.idempotent and all(options.get(key) is None for key in others):
            return "until_executing"
        return said

    @property
    def doubts(self) -> Sequence[str]:
        """Reasons why the job will hardly meet its urgency. Each completes a sentence that starts with its name."""
        if self.urgency != "high":
            return ()
        reasons = {
            "calls external services, whose latency it cannot control": self.external_dependencies,
            "is limited by memory, so few runs fit on a host": self.resource_boundary == "memory",
        }
        return [f"is of high urgency and {reason}" for reason, holds in reasons.items() if holds]

    def generated_queue(self, job_name: str) -> str:
        """Return the queue named after the job: ``resize_image`` for ``app.jobs.ResizeImageJob``.

        The last part of the name in snake case without ``Worker`` or ``Job``, after the namespace.
        """
        own = generated_name(job_name)
        return f"{self.queue_namespace}:{own}" if self.queue_namespace else own

    def attributes(self, job_name: str) -> Mapping[str, frozenset[str]]:
        """Return the values of this job for each predicate of a query."""
        return {
            "worker_name": frozenset((job_name,)),
            "name": frozenset((self.generated_queue(job_name),)),
            "urgency": frozenset((self.urgency,)),
            "resource_boundary": frozenset((self.resource_boundary,)),
            "feature_category": frozenset((self.feature_category,)),
            "has_external_dependencies": frozenset(("true" if self.external_dependencies else "false",)),
            "queue_namespace": frozenset((self.queue_namespace,)),
            "tags": frozenset(self.tags),
        }


def generated_name(job_name: str) -> str:
    """Derive a queue name from a job name, as GitLab does: ``ci_build_trace`` for ``Ci::BuildTraceWorker``."""
    last = job_name.rpartition(".")[2].replace("::", "_")
    words = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", re.sub(r"([A-Z\d]+)([A-Z][a-z])", r"\1_\2", last)).lower()
    for ending in ("_worker", "_job"):
        if words.removesuffix(ending) not in ("", words):
            words = words.removesuffix(ending)
            break
    return _ODD_IN_QUEUES.sub("_", words) or "_"


def check_characteristics(declared: Mapping[str, Any], *, job_name: str) -> None:
    """Raise InvalidOptions, with the job name, for an invalid characteristic."""
    try:
        for key, check in CHARACTERISTICS.items():
            if key in declared:
                check(key, declared[key])
    except InvalidOptions as error:
        raise InvalidOptions(f"{job_name}: {error}") from None


def _one_of(words: Sequence[str]) -> Callable[[str, Any], None]:
    def check(key: str, value: Any) -> None:
        if value not in words:
            raise InvalidOptions(f"{key} must be one of {', '.join(words)}, got {value!r}")

    return check


def _check_switch(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise InvalidOptions(f"{key} must be True or False, got {value!r}")


def _check_word(key: str, value: Any) -> None:
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise InvalidOptions(f"{key} must be letters, digits and _ : . - (at least one), got {value!r}")


#: Checks of the declared characteristics, which are not stored.
CHARACTERISTICS: Mapping[str, Callable[[str, Any], None]] = {
    "urgency": _one_of(URGENCIES),
    "resource_boundary": _one_of(BOUNDARIES),
    "feature_category": _check_word,
    "external_dependencies": _check_switch,
    "idempotent": _check_switch,
    "queue_namespace": _check_word,
}
