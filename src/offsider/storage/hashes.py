"""The fields of a hash, in each form in which a reply has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast


def pairs(reply: object) -> Iterable[tuple[bytes, bytes]]:
    """Fields and values: of a list, or over RESP3 of a dict; none for the error that stands in place of a hash."""
    if isinstance(reply, dict):
        return cast("dict[bytes, bytes]", reply).items()
    values = cast("list[bytes]", reply) if isinstance(reply, list) else []
    return zip(values[::2], values[1::2], strict=True)


def texts(reply: object) -> Iterator[tuple[str, str]]:
    """The same decoded; what is no UTF-8 is replaced."""
    for field, value in pairs(reply):
        yield field.decode("utf-8", "replace"), value.decode("utf-8", "replace")
