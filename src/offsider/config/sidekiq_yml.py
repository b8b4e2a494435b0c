"""Converts Sidekiq's ``config/sidekiq.yml`` to the tree of an ``offsider.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from offsider.config.settings import ENVIRONMENTS, GROUPS
from offsider.core.errors import ConfigurationError
from offsider.core.suggestions import nearest

_SYMBOL = re.compile(r":[A-Za-z_]\w*")

# Keys of Sidekiq and of its common add-ons that have no effect here.
IGNORED = frozenset(
    {
        "average_scheduled_poll_interval",
        "cron",
        "daemon",
        "dynamic",
        "enabled",
        "index",
        "limits",
        "listened_queues_only",
        "logfile",
        "pidfile",
        "poll_interval_average",
        "profile",
        "schedule",
        "scheduler",
        "strict",
    }
)


def read_sidekiq_yml(text: str, origin: str) -> tuple[dict[str, Any], list[str]]:
    """Return the tree of settings, and a note for each ignored key.

    Raises:
        ConfigurationError: the file has ERB, invalid YAML or an unknown key, or PyYAML is not installed.
    """
    _refuse_erb(text, origin)
    loaded = _load(text, origin)
    if loaded is None:
        return {}, []
    if not isinstance(loaded, dict):
        raise ConfigurationError(f"{origin}: expects keys such as :concurrency: and :queues:, got {loaded!r}")
    notes: list[str] = []
    tree: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", _plain(cast("object", loaded))).items():
        if isinstance(value, Mapping) and key not in {*GROUPS, *IGNORED, ENVIRONMENTS}:
            _check_environment(key, origin)
            part = _translated(cast("Mapping[str, Any]", value), origin, notes)
            tree.setdefault(ENVIRONMENTS, {})[key] = part
        else:
            tree.update(_translated({key: value}, origin, notes))
    return tree, notes


def _refuse_erb(text: str, origin: str) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        if "<%" in line and not line.lstrip().startswith("#"):
            raise ConfigurationError(
                f"{origin}:{number}: ERB (<% … %>) is Ruby and is not run; write ${{VARIABLE}} or "
                "${VARIABLE:-default} in its place"
            )


def _load(text: str, origin: str) -> object:
    try:
        import yaml
    except ImportError:
        raise ConfigurationError(f'{origin}: reading YAML needs PyYAML: pip install "offsider[yaml]"') from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{origin}:{mark.line + 1}" if mark else origin
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigurationError(f"{place}: not valid YAML: {problem}") from None


def _plain(value: object) -> Any:
    """Replace Ruby's symbols (``:name``) with strings, in keys and in values."""
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {str(_plain(key)): _plain(item) for key, item in pairs}
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, str) and _SYMBOL.fullmatch(value):
        return value[1:]
    return value


def _translated(tree: Mapping[str, Any], origin: str, notes: list[str]) -> dict[str, Any]:
    """Translate Sidekiq's keys to offsider's."""
    ours: dict[str, Any] = {}
    for key, value in tree.items():
        if key == "verbose":
            ours.setdefault("log", {}).update({"level": "debug"} if value else {})
        elif key in IGNORED:
            notes.append(f"{origin}: offsider has no setting {key}: it is ignored")
        else:
            ours[key] = value
    return ours


def _check_environment(key: str, origin: str) -> None:
    """Raise ConfigurationError if a table, which would be an environment, looks like a misspelled section."""
    # Stricter than elsewhere: otherwise the environment "production" would be taken for "routing".
    if meant := nearest(key, GROUPS, cutoff=0.8):
        raise ConfigurationError(f"{origin}: there is no section {key} (did you mean {meant!r}?)")
