"""The outbox: an extension point that writes pushes as rows of the application's database, in its transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from offsider.core.errors import InvalidOptions


class PendingPushes(Protocol):
    """Pushes that a client gives to the outbox; `client.base.Deferred` implements it."""

    def prepare(self) -> Sequence[Any]:
        """Run client middleware and return the `client.Prepared` jobs that it did not stop, each with its server.

        A second call returns the same jobs.
        """
        ...


class Outbox(Protocol):
    """The interface of ``config.outbox``. Must be thread-safe.

    Attributes:
        default: whether it takes the pushes of jobs without the option ``outbox``.
    """

    @property
    def default(self) -> bool: ...

    def hook(self) -> Callable[[Any], None] | None:
        """Return the function that takes `PendingPushes` and writes their rows; None if no transaction can:
        then a push with the option ``outbox=True`` is an error, and others bypass the outbox.
        """
        ...


def check_installed(options: Mapping[str, Any], outbox: Outbox | None, *, job_name: str) -> None:
    """Raise InvalidOptions for ``outbox=True`` without an outbox."""
    if options.get("outbox") and outbox is None:
        raise InvalidOptions(
            f'{job_name}: outbox=True needs an outbox: set OFFSIDER["outbox"] = True in the settings of Django; '
            "elsewhere call config.use(SQLAlchemyOutbox(...)), imported from offsider.integrations.sqlalchemy_outbox, "
            "in the function configure of the application"
        )
