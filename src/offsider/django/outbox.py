"""The outbox in a database of Django: `offsider.ext.outbox` with the model `OutboxRow`."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from django.conf import settings
from django.db import connections, transaction
from django.db.models import Count, Min
from django.utils.asyncio import async_unsafe

from offsider.client.relay_source import CHANNEL, StoredPush, can_listen, identity_of, wait_for_notification
from offsider.core.errors import ConfigurationError
from offsider.django.database import after_commit, is_open
from offsider.django.models import TABLE, OutboxRow

_async_unsafe: Any = async_unsafe
FIELDS = ("id", "jid", "server", "place", "score", "payload", "guarded", "created_at")


class DjangoSource:
    """The rows of one database. Each thread uses its own connection of Django.

    Args:
        alias: the database, one of ``DATABASES``.

    Raises:
        ConfigurationError: there is no such database.
    """

    noun = "outbox"

    def __init__(self, alias: str = "default") -> None:
        if alias not in settings.DATABASES:
            known = ", ".join(sorted(settings.DATABASES))
            raise ConfigurationError(
                f'OFFSIDER["outbox"] must be True, False or one of DATABASES ({known}), got {alias!r}'
            )
        self._alias = alias
        self._listening: object = None

    @property
    def identity(self) -> str:
        database = connections[self._alias].settings_dict
        return identity_of(database["HOST"], database["PORT"], database["NAME"], TABLE)

    def is_open(self) -> bool:
        """Always true: outside of a transaction, Django commits each row."""
        return True

    @_async_unsafe(
        "In async code, use `await job.aenqueue(...)`: a push through the outbox must run in the thread of its "
        "transaction."
    )
    def add(self, rows: Sequence[StoredPush]) -> None:
        """Insert rows. In transactions of other databases only, this waits for their commits."""
        own = connections[self._alias]
        others = (other for other in connections.all(initialized_only=True) if other.alias != self._alias)
        if not is_open(own) and any(is_open(other) for other in others):
            cast("Any", after_commit)(partial(self._insert, rows))
        else:
            self._insert(rows)

    def _insert(self, rows: Sequence[StoredPush]) -> None:
        own, block = connections[self._alias], cast("Any", transaction.atomic(using=self._alias, savepoint=False))
        with block:
            self._rows.bulk_create(
                OutboxRow(**{name: getattr(row, name) for name in FIELDS if name != "id"}) for row in rows
            )
            if own.vendor == "postgresql":
                with own.cursor() as cursor:
                    cursor.execute(f"NOTIFY {CHANNEL}")

    @property
    def _rows(self) -> Any:
        return OutboxRow._default_manager.using(self._alias)  # noqa: SLF001

    def read(self, server: str, after_id: int, limit: int) -> list[StoredPush]:
        found = self._rows.filter(server=server, id__gt=after_id).order_by("id").values(*FIELDS)[:limit]
        return [StoredPush(**{**row, "payload": bytes(row["payload"])}) for row in found]

    def delete(self, ids: Sequence[int]) -> None:
        self._rows.filter(id__in=ids).delete()

    def waiting(self) -> Mapping[str, tuple[int, float]]:
        found = self._rows.order_by().values_list("server").annotate(Count("id"), Min("created_at"))
        return {server: (count, oldest) for server, count, oldest in found}

    def wait(self, seconds: float) -> bool:
        own = connections[self._alias]
        if own.vendor != "postgresql":
            return False
        own.ensure_connection()
        if not can_listen(own.connection):
            return False
        if own.connection is not self._listening:
            with own.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            self._listening = own.connection
        return wait_for_notification(own.connection, seconds)

    def close(self) -> None:
        self._listening = None
        connections[self._alias].close()
