"""Which fetcher a capsule gets: ``worker.fetcher`` is ``reliable``, ``basic``, or a class of the user's."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from offsider.core.errors import ConfigurationError
from offsider.worker.basic_fetcher import BasicFetcher
from offsider.worker.fetcher import ReliableFetcher
from offsider.worker.unit_of_work import Fetcher

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership

_SHIPPED: Mapping[str, type] = {"reliable": ReliableFetcher, "basic": BasicFetcher}


def make_fetcher(config: Config, capsule: Capsule, ownership: Ownership) -> Fetcher:
    """The fetcher of one capsule.

    Raises:
        ConfigurationError: the class that ``worker.fetcher`` names cannot be imported.
    """
    wanted = config.fetcher
    made_by = (_SHIPPED.get(wanted) or _find(wanted)) if isinstance(wanted, str) else wanted
    return cast(Fetcher, made_by(config, capsule, ownership))


def _find(path: str) -> type:
    """The class that the operator's configuration names; never a name out of a payload."""
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return cast(type, getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"worker.fetcher: {path!r} is neither reliable, basic nor a class that can be imported: {error}"
        raise ConfigurationError(msg) from error
