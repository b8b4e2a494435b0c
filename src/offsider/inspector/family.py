"""One metric as Prometheus knows it, and its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram", "summary"]
Labels: TypeAlias = Mapping[str, str]

#: Of the value of a label; what is longer is cut.
MOST_LETTERS = 500

_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_VALUE = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a family.

    Attributes:
        value: what was measured.
        labels: what it was measured of.
        suffix: behind the family's name, as in ``_bucket``.
    """

    value: float
    labels: Labels = field(default_factory=dict[str, str])
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """All numbers of one name.

    Attributes:
        name: as Prometheus knows it.
        kind: how it may be used.
        help: what it counts, for people.
        samples: the numbers; none when there is nothing to tell.
    """

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...]


def render(families: Iterable[Family]) -> str:
    """The text of some families."""
    return "".join(line for family in families for line in _lines(family))


def _lines(family: Family) -> Iterable[str]:
    yield f"# HELP {family.name} {family.help.translate(_HELP)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for sample in family.samples:
        pairs = ",".join(f'{name}="{_written(value)}"' for name, value in sample.labels.items())
        braces = f"{{{pairs}}}" if pairs else ""
        yield f"{family.name}{sample.suffix}{braces} {number(sample.value)}\n"


def number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


@lru_cache(maxsize=4096)  # each value stands in dozens of lines
def _written(value: str) -> str:
    # What others stored as the name of a class need not be short, nor text that can be sent.
    return value[:MOST_LETTERS].translate(_VALUE).encode("utf-8", "replace").decode()
