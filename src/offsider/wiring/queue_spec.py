"""A queue as a worker serves it: its name and how often it is looked at first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.options import check_queue_name

EVERY = "*"
MAX_WEIGHT = 1000  # the list of draws holds a queue as often as its weight


@dataclass(frozen=True)
class QueueSpec:
    """``weight`` 0 means none given. The name ``*`` stands for every queue there is."""

    name: str
    weight: int = 0

    @classmethod
    def parse(cls, value: object) -> QueueSpec:
        """From ``"name"``, ``"name,weight"`` or a pair; ConfigurationError for anything else."""
        if isinstance(value, QueueSpec):
            return value
        if isinstance(value, str):
            name, comma, weight = value.strip().partition(",")
            return cls._checked(name.strip(), weight.strip() if comma else 0, value)
        if isinstance(value, list | tuple):
            pair = tuple(cast("list[object] | tuple[object, ...]", value))
            if len(pair) in (1, 2):
                return cls._checked(pair[0], pair[1] if len(pair) == 2 else 0, pair)
        raise ConfigurationError(f'a queue is written "name" or "name,weight", got {value!r}')

    @classmethod
    def _checked(cls, name: object, weight: object, given: object) -> QueueSpec:
        if name != EVERY:
            try:
                check_queue_name(name)
            except InvalidOptions as error:
                raise ConfigurationError(str(error)) from None
        if isinstance(weight, str) and weight.isascii() and weight.isdigit():
            weight = int(weight)
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= MAX_WEIGHT:
            raise ConfigurationError(f"a queue's weight is a whole number from 0 to {MAX_WEIGHT}, got {given!r}")
        return cls(str(name), weight)

    def __str__(self) -> str:
        return f"{self.name},{self.weight}" if self.weight else self.name


def parse_all(values: Iterable[object]) -> tuple[QueueSpec, ...]:
    """Every queue of a list; ConfigurationError also for one that is named twice."""
    specs = tuple(QueueSpec.parse(value) for value in values)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"the queue {name!r} is named twice; give it a weight to look at it more often")
    return specs
