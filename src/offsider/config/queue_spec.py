"""A queue in the configuration of a worker: its name and its weight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.options import check_queue_name

EVERY = "*"
MAX_WEIGHT = 1000  # the list that a weighted fetch draws from has one entry per unit of weight


@dataclass(frozen=True)
class QueueSpec:
    """A queue and its weight; 0 means no weight. The name ``*`` means every existing queue."""

    name: str
    weight: int = 0

    @classmethod
    def parse(cls, value: object) -> QueueSpec:
        """Parse ``"name"``, ``"name,weight"`` or a pair; ConfigurationError for anything else.

        A name with a comma needs a weight, which may be 0: ``"a,b,0"``.
        """
        if isinstance(value, QueueSpec):
            return value
        if isinstance(value, str):
            name, comma, weight = value.rpartition(",")
            return cls._checked(name.strip(), weight.strip(), value) if comma else cls._checked(value.strip(), 0, value)
        if isinstance(value, list | tuple):
            pair = tuple(cast("list[object] | tuple[object, ...]", value))
            if len(pair) in (1, 2):
                return cls._checked(pair[0], pair[1] if len(pair) == 2 else 0, pair)
        raise ConfigurationError(f'expected a queue as "name" or "name,weight", got {value!r}')

    @classmethod
    def _checked(cls, name: object, weight: object, given: object) -> QueueSpec:
        if name != EVERY:
            try:
                check_queue_name(name)
            except InvalidOptions as error:
                raise ConfigurationError(str(error)) from None
        if str(name) != str(name).strip():  # it could not be parsed from text
            raise ConfigurationError(f'only "*" can serve a queue whose name begins or ends with a space: {name!r}')
        if isinstance(weight, str) and weight.isascii() and weight.isdigit():
            weight = int(weight)
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= MAX_WEIGHT:
            raise ConfigurationError(
                f"a queue's weight must be a whole number from 0 to {MAX_WEIGHT}, got {given!r}; "
                "list each queue separately"
            )
        return cls(str(name), weight)

    def __str__(self) -> str:
        return f"{self.name},{self.weight}" if self.weight or "," in self.name else self.name


def parse_all(values: Iterable[object]) -> tuple[QueueSpec, ...]:
    """Parse a list of queues; ConfigurationError for an invalid or duplicate name."""
    specs = tuple(QueueSpec.parse(value) for value in values)
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"the queue {name!r} is listed twice; to check it more often, give it a weight")
    return specs
