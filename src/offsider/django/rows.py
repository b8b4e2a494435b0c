"""The rows of a query set in the order of their keys, for `offsider.resumable`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def by_key(rows: Any, start: Any = None, *, page_size: int = 1000) -> Iterator[Any]:
    """Yield the rows from a primary key on, its row included, page by page.

    ::

        users = User.objects.filter(active=True)
        for user in resumable(lambda start: by_key(users, start), cursor=lambda user: user.pk):
            index(user)

    A row that is added or deleted meanwhile does not move the others.

    Args:
        rows: the query set; its order is replaced.
        start: the key; None for all rows.
        page_size: number of rows of a query.
    """
    ordered = rows.order_by("pk")
    page = [*(ordered if start is None else ordered.filter(pk__gte=start))[:page_size]]
    while page:
        yield from page
        page = [*ordered.filter(pk__gt=page[-1].pk)[:page_size]]
