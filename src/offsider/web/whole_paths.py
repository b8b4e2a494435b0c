"""Complete paths in JSON with the mount path and the server.

Pages return paths relative to a server's root. Templates complete them with ``url``; for JSON this module does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

#: Keys whose value is a path, besides those ending in ``_path``.
_PATHS = frozenset({"path", "action", "back", "start", "previous", "next", "end", "more"})
#: Keys whose value is a mapping of paths.
_OF_PATHS = frozenset({"actions", "orders", "sorts", "every", "selected", "samples", "periods", "without"})
#: Keys of mappings whose names are user data, so they are not checked.
_FOREIGN = frozenset({"fields", "values", "kept"})


def with_base(base: str, data: Any) -> Any:
    """Return the data of a page with ``base`` prepended to each path."""
    if not base:
        return data
    if isinstance(data, Mapping):
        named = cast("Mapping[str, Any]", data)
        return {name: _member(base, name, value) for name, value in named.items()}
    if isinstance(data, list | tuple):
        return [with_base(base, each) for each in cast("list[Any]", data)]
    return data


def _member(base: str, name: str, value: Any) -> Any:
    if name in _PATHS or name.endswith("_path"):
        return _whole(base, value)
    if name in _OF_PATHS and isinstance(value, Mapping):
        paths = cast("Mapping[str, Any]", value)
        return {key: _whole(base, path) for key, path in paths.items()}
    return value if _is_foreign(name, value) else with_base(base, value)


def _is_foreign(name: str, value: object) -> bool:
    return name in _FOREIGN and isinstance(value, Mapping)


def _whole(base: str, path: Any) -> Any:
    # An empty path means that the page does not exist.
    return base + path if isinstance(path, str) and path.startswith("/") else path
