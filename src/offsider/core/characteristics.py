"""What a job says of itself, for rules that route it and for people who run the fleet. Never stored in a payload."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from offsider.core.errors import InvalidOptions
from offsider.core.options import Urgency, check_queue_name

URGENCIES = ("high", "low", "throttled")
BOUNDARIES = ("cpu", "memory", "none", "unknown")
#: One value of a query; a category that is written otherwise could not be asked for.
WORD = re.compile(r"[\w:.-]+")
_ODD_IN_QUEUES = re.compile(r"[^a-z0-9_.:-]")


@dataclass(frozen=True, slots=True)
class Characteristics:
    """The characteristics of one job.

    Attributes:
        urgency: how soon a run should begin; ``"throttled"`` jobs may wait for long.
        resource_boundary: what a run uses most. ``"none"`` is what nobody has said; ``"unknown"`` means the same.
        feature_category: the part of the product, or the team, that it belongs to; empty when nobody has said.
        external_dependencies: whether a run calls services that others run.
        tags: its labels.
        weight: its share among jobs of other classes, from 1.
        idempotent: running it twice does no harm.
        queue_namespace: put before the generated name of its queue; empty for none.
    """

    urgency: Urgency = "low"
    resource_boundary: Literal["cpu", "memory", "none"] = "none"
    feature_category: str = ""
    external_dependencies: bool = False
    tags: tuple[str, ...] = ()
    weight: int = 1
    idempotent: bool = False
    queue_namespace: str = ""

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Characteristics:
        """Those among the declared options of a job, which `check_characteristics` found good."""
        given = {key: declared[key] for key in CHARACTERISTICS if key in declared}
        if given.get("resource_boundary") == "unknown":
            given["resource_boundary"] = "none"
        return cls(**given, tags=tuple(declared.get("tags") or ()))

    @property
    def doubts(self) -> Sequence[str]:
        """Why what its urgency promises will hardly be kept; each completes a sentence that begins with its name."""
        if self.urgency != "high":
            return ()
        reasons = {
            "calls services that others run, which promise nothing": self.external_dependencies,
            "is bound by memory, so that few of it run at a time": self.resource_boundary == "memory",
        }
        return [f"is of high urgency and {reason}" for reason, holds in reasons.items() if holds]

    def generated_queue(self, job_name: str) -> str:
        """The queue that is named after the job: ``app.jobs.ResizeImageJob`` is served from ``resize_image``.

        The last part of the name in snake case without ``Worker`` or ``Job``, below the namespace.
        """
        own = generated_name(job_name)
        return f"{self.queue_namespace}:{own}" if self.queue_namespace else own

    def attributes(self, job_name: str) -> Mapping[str, frozenset[str]]:
        """What queries ask for: predicate -> the values that this job has."""
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
    """The last part of a job's name as a queue, as GitLab makes it: ``ci_build_trace`` of ``Ci::BuildTraceWorker``."""
    last = job_name.rpartition(".")[2].replace("::", "_")
    words = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", re.sub(r"([A-Z\d]+)([A-Z][a-z])", r"\1_\2", last)).lower()
    for ending in ("_worker", "_job"):
        if words.removesuffix(ending) not in ("", words):
            words = words.removesuffix(ending)
            break
    return _ODD_IN_QUEUES.sub("_", words) or "_"


def check_characteristics(declared: Mapping[str, Any], *, job_name: str) -> None:
    """Raise InvalidOptions, naming the job, for a characteristic that is impossible."""
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


def _check_category(key: str, value: Any) -> None:
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise InvalidOptions(f"{key} must be letters, digits and _ : . - (at least one), got {value!r}")


def _check_weight(key: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidOptions(f"{key} must be a whole number >= 1, got {value!r}")


def _check_namespace(key: str, value: Any) -> None:
    check_queue_name(value, what=key)


#: The characteristics that are declared and nowhere stored, with the check of each.
CHARACTERISTICS: Mapping[str, Callable[[str, Any], None]] = {
    "urgency": _one_of(URGENCIES),
    "resource_boundary": _one_of(BOUNDARIES),
    "feature_category": _check_category,
    "external_dependencies": _check_switch,
    "weight": _check_weight,
    "idempotent": _check_switch,
    "queue_namespace": _check_namespace,
}
