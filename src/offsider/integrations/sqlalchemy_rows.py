"""The rows of a SQLAlchemy select in the order of their keys, for `offsider.resumable`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from offsider.integrations import missing

try:
    from sqlalchemy import Select
    from sqlalchemy.orm import InstrumentedAttribute, Session
except ImportError as error:
    raise missing("offsider.integrations.sqlalchemy_rows", "sqlalchemy") from error

T = TypeVar("T")


def by_key(
    session: Session,
    rows: Select[tuple[T]],
    key: InstrumentedAttribute[Any],
    start: Any = None,
    *,
    page_size: int = 1000,
) -> Iterator[T]:
    """Yield the objects from a key on, its object included, page by page.

    ::

        for user in resumable(lambda start: by_key(session, select(User), User.id, start), cursor=lambda user: user.id):
            index(user)

    Args:
        session: reads them.
        rows: the select of one class; its order is replaced.
        key: a unique column of the class.
        start: the key; None for all objects.
        page_size: number of objects of a query.
    """
    ordered: Any = rows.order_by(None).order_by(key)
    page: list[T] = [*session.scalars((ordered if start is None else ordered.where(key >= start)).limit(page_size))]
    while page:
        last = getattr(page[-1], key.key)
        yield from page
        page = [*session.scalars(ordered.where(key > last).limit(page_size))]
