"""Differences between two values, by path: ``options['size'] is 1, not 2``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, cast

from offsider.testing import wording

_ABSENT = object()


def differences(expected: Any, actual: Any, path: str) -> Iterator[str]:
    """Yield every difference, also inside lists and dicts. A tuple equals the list that JSON makes of it.

    Values are compared with ``==``, the expected one on the left, so ``unittest.mock.ANY`` works anywhere.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _of_mappings(cast(Mapping[str, Any], expected), cast(Mapping[str, Any], actual), path)
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        pairs = zip_longest(cast(Iterable[Any], expected), cast(Iterable[Any], actual), fillvalue=_ABSENT)
        for index, (left, right) in enumerate(pairs):
            yield from of_pair(left, right, f"{path}[{index}]")
    elif not _equal(cast(object, expected), cast(object, actual)):
        yield f"{path} is {wording.value(cast(object, actual))}, not {wording.value(cast(object, expected))}"


def of_pair(expected: object, actual: object, path: str) -> Iterator[str]:
    """Yield the differences of two values, one of which may be absent."""
    if expected is _ABSENT:
        yield f"{path} is {wording.value(actual)}, but nothing was expected there"
    elif actual is _ABSENT:
        yield f"{path} is missing, not {wording.value(expected)}"
    else:
        yield from differences(expected, actual, path)


def of_arguments(expected: list[Any], actual: list[Any], names: Iterable[str]) -> Iterator[str]:
    """Yield the differences of lists whose elements have names."""
    for left, right, name in _named(expected, actual, names):
        yield from of_pair(left, right, name)


def of_keywords(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences of dicts whose keys are names."""
    for name in {**expected, **actual}:
        yield from of_pair(expected.get(name, _ABSENT), actual.get(name, _ABSENT), name)


def _named(expected: list[Any], actual: list[Any], names: Iterable[str]) -> Iterator[tuple[Any, Any, str]]:
    pairs = zip_longest(expected, actual, fillvalue=_ABSENT)
    for (left, right), name in zip(pairs, names, strict=False):
        yield left, right, name


def _of_mappings(expected: Mapping[str, Any], actual: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in {**expected, **actual}:
        yield from of_pair(expected.get(key, _ABSENT), actual.get(key, _ABSENT), f"{path}[{key!r}]")


def _equal(expected: object, actual: object) -> bool:
    # JSON distinguishes true from 1, Python does not.
    if isinstance(expected, bool) != isinstance(actual, bool) and isinstance(expected, bool | int | float):
        return False
    return bool(expected == actual)
