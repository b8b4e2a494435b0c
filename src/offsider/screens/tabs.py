"""The screens of a server: our own ones and those of extensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from offsider.config.installation import Installation
from offsider.config.web_tab import WebTab
from offsider.core.error_text import describe
from offsider.core.segments import parts_of, pattern_of
from offsider.logs.setup import logger
from offsider.screens import classes, controls, failures, findings, fleet, jobs, log, processes, queues
from offsider.screens.plain import cell

T = TypeVar("T")
#: Our screens, in the order of the navigation bar.
OWN = (
    findings.TAB,
    classes.TAB,
    failures.TAB,
    jobs.TAB,
    fleet.TAB,
    queues.TAB,
    processes.TAB,
    log.TAB,
    controls.TAB,
)


def all_tabs(installation: Installation) -> Sequence[WebTab]:
    """Return the screens, ours first."""
    return [*OWN, *installation.config.web_tabs]


def current_tab(installation: Installation, path: str) -> WebTab | None:
    """Return the screen of a path."""
    above = (tab for tab in all_tabs(installation) if path == tab.path or path.startswith(f"{tab.path}/"))
    return max(above, key=lambda tab: len(tab.path), default=None)


def action_of(tab: WebTab, path: str) -> str:
    """Return the name of an action of a screen, for the authorization hook and the log."""
    return f"{tab.name}.{path.rpartition('/')[2]}"


def find(handlers: Mapping[str, T], path: str) -> tuple[str, T, dict[str, str]] | None:
    """Return the route or action of a path below a screen's path: its pattern, its function, and the placeholders."""
    for pattern, handler in handlers.items():
        match = pattern_of(pattern).fullmatch(path)
        if match is not None:
            return pattern, handler, parts_of(match)
    return None


def job_facts(installation: Installation, payload: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the facts about a job from all screens. An extension that fails is logged and left out."""
    found: list[dict[str, Any]] = []
    for tab in all_tabs(installation):
        if tab.job_facts is None or payload is None:
            continue
        try:
            found += [{"name": name, "cell": cell(value)} for name, value in tab.job_facts(payload).items()]
        except Exception as error:  # noqa: BLE001  # the extension's code; the rest of the page is fine
            logger.warning("job_facts of the web tab %r failed: %s", tab.name, describe(error))
    return found
