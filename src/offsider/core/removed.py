"""Settings, job options, commands, command options and log formats that were removed, each with its replacement.

The text completes "the setting worker.example was removed: ...", so it says what to do.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["setting", "option", "command", "command option", "log format"]

#: By ``section.key``; in a named table ``servers.NAME.key``.
SETTINGS: dict[str, str] = {
    "worker.metrics": "runs are always counted; remove it",
    "log.application_level": "set the level of the root logger in the application, which a worker keeps",
}
#: Options of ``@job`` and of ``using``.
JOB_OPTIONS: dict[str, str] = {
    "deduplicate": 'write unique_until="until_executed" or "until_executing", unique_for=SECONDS, and '
    "including_scheduled=True or reschedule_once=True",
}
#: Without ``offsider``: ``"queues example"``.
COMMANDS: dict[str, str] = {
    "migrate": "due jobs follow the routing rules when they are enqueued, and 'offsider queues move FROM TO' moves the "
    "jobs of a queue",
}
#: With its command: ``"worker --example"``.
COMMAND_OPTIONS: dict[str, str] = {}
LOG_FORMATS: dict[str, str] = {
    "pretty": "use text",
    "plain": "use text, which has colors on a terminal only",
    "without_timestamp": "use text",
    "structured": "use json, which has its fields",
}

_TABLES: dict[Kind, dict[str, str]] = {
    "setting": SETTINGS,
    "option": JOB_OPTIONS,
    "command": COMMANDS,
    "command option": COMMAND_OPTIONS,
    "log format": LOG_FORMATS,
}


def message(kind: Kind, name: str) -> str:
    """Return the message about something removed; empty if ``name`` was not removed."""
    instead = _TABLES[kind].get(name)
    return f"the {kind} {name} was removed: {instead}" if instead else ""


def setting_message(name: str) -> str:
    """Return the message about a removed setting, by ``section.key``, ``table.NAME.key`` or key alone."""
    section, _, key = name.rpartition(".")
    group, _, named = section.partition(".")
    if named:
        return message("setting", f"{group}.NAME.{key}").replace(f"{group}.NAME.{key}", name)
    found = name if section else next((each for each in SETTINGS if each.rpartition(".")[2] == key), name)
    return message("setting", found)
