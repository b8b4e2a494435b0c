"""Creates the fetcher of a capsule: ``worker.fetcher`` is ``reliable``, ``basic``, or the application's class."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from offsider.core.errors import ConfigurationError
from offsider.worker.fetch.fetcher import Fetcher, FetcherContext

_SHIPPED: Mapping[str, str] = {
    "reliable": "offsider.worker.fetch.reliable:ReliableFetcher",
    "basic": "offsider.worker.fetch.basic:BasicFetcher",
}


def make_fetcher(context: FetcherContext) -> Fetcher:
    """Create the fetcher of one capsule.

    Raises:
        ConfigurationError: the class that ``worker.fetcher`` names cannot be imported.
    """
    wanted = context.config.fetcher
    made_by = _find(_SHIPPED.get(wanted, wanted)) if isinstance(wanted, str) else wanted
    return cast(Fetcher, made_by(context))


def _find(path: str) -> type:
    """Import the class that the configuration names. The name must never be taken from a payload."""
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        return cast(type, getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"worker.fetcher: {path!r} is neither reliable, basic nor a class that can be imported: {error}"
        raise ConfigurationError(msg) from error
