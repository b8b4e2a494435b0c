"""Which fetcher a capsule gets: ``worker.fetcher`` is ``reliable``, ``basic``, or a class of the user's."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from offsider.core.errors import ConfigurationError
from offsider.worker.basic_fetcher import BasicFetcher
from offsider.worker.fetcher import ReliableFetcher

if TYPE_CHECKING:
    from offsider.wiring.capsule import Capsule
    from offsider.wiring.config import Config
    from offsider.worker.ownership import Ownership
    from offsider.worker.unit_of_work import Fetcher


def make_fetcher(config: Config, capsule: Capsule, ownership: Ownership) -> Fetcher:
    """The fetcher of one capsule.

    Raises:
        ConfigurationError: the class that ``worker.fetcher`` names cannot be imported.
    """
    match config.fetcher:
        case "reliable":
            return ReliableFetcher(config, capsule, ownership)
        case "basic":
            return BasicFetcher(config, capsule)
        case custom:
            made_by = _find(custom) if isinstance(custom, str) else custom
            return cast("Fetcher", made_by(capsule))


def _find(path: str) -> type:
    """The class that the operator's configuration names; never a name out of a payload."""
    module, _, name = path.rpartition(".")
    try:
        return cast("type", getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"worker.fetcher: {path!r} is neither reliable, basic nor a class that can be imported: {error}"
        raise ConfigurationError(msg) from error
