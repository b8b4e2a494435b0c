"""The stored findings: a worker refreshes them each ten seconds, and all who show them read one key."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.clock import as_seconds
from offsider.core.errors import ConfigurationError, UnknownSubject
from offsider.core.suggestions import suggest
from offsider.inspector.finding import Finding, as_json, from_json
from offsider.inspector.findings.examination import by_harm, find
from offsider.storage import clocks, events, findings as store

#: Older findings are not shown: no worker refreshes them, and the reader looks itself.
FRESH_SECONDS = 20.0
MAX_MUTE_SECONDS = 30 * 86_400.0


def refresh(config: Config | Installation | None = None) -> list[Finding]:
    """Look at the server, store the findings, and return the new ones. Called by one worker at a time.

    A finding whose begin is unknown began with the first refresh that found it. New and ended findings are events.

    Raises:
        RedisFailure: the server is unreachable.
    """
    server = Installation.of(config)
    known = {each.id: each for each in _read(server)[1]}
    now, _ = clocks.look(server.redis)
    muted = store.muted(server.redis, now)
    current = _continued(find(server, known), known, muted, now)
    store.write(server.redis, json.dumps({"at": now, "findings": [as_json(each) for each in current]}))
    ids = {each.id for each in current}
    new = [each for each in current if each.id not in known]
    ended = [each for each in known.values() if each.id not in ids]
    for kind, found in ((events.FINDING_NEW, new), (events.FINDING_ENDED, ended)):
        for each in found:
            events.note(server.redis, kind, each.subject, finding=each.name, what=each.what)
    return new


def stored(config: Config | Installation | None = None) -> list[Finding]:
    """Return the findings of the last refresh, most harm first, with one command.

    If they are older than `FRESH_SECONDS`, no worker refreshes them; then this call looks at the server.

    Raises:
        RedisFailure: the server is unreachable.
    """
    server = Installation.of(config)
    at, found = _read(server)
    if abs(time.time() - at) <= FRESH_SECONDS:
        return found
    known = {each.id: each for each in found}
    now, _ = clocks.look(server.redis)
    if abs(now - at) <= FRESH_SECONDS:  # the clock of this host is wrong
        return found
    return _continued(find(server, known), known, store.muted(server.redis, now), None)


def mute(
    finding_id: str, lasting: float | timedelta, config: Config | Installation | None = None, *, by: str = ""
) -> Finding:
    """Mute a finding: pages show it as muted, and it causes no alerts.

    Args:
        finding_id: its id.
        lasting: seconds or a timedelta, up to 30 days.
        by: who mutes it.

    Raises:
        UnknownSubject: there is no such finding.
        RedisFailure: the server is unreachable.
    """
    server = Installation.of(config)
    seconds = as_seconds(lasting, "the time to mute", at_least=1.0, at_most=MAX_MUTE_SECONDS, error=ConfigurationError)
    found = {each.id: each for each in stored(server)}
    if finding_id not in found:
        raise UnknownSubject(f"there is no finding {finding_id!r}{suggest(finding_id, found)}: see offsider now")
    store.mute(server.redis, finding_id, clocks.look(server.redis)[0] + seconds, by)
    refresh(server)
    return found[finding_id]


def unmute(finding_id: str, config: Config | Installation | None = None) -> None:
    """End the muting of a finding. Raises UnknownSubject if it is not muted, and RedisFailure."""
    server = Installation.of(config)
    if not store.unmute(server.redis, finding_id):
        known = store.muted(server.redis, clocks.look(server.redis)[0])
        raise UnknownSubject(f"the finding {finding_id!r} is not muted{suggest(finding_id, known)}")
    refresh(server)


def _continued(
    found: Sequence[Finding],
    known: Mapping[str, Finding],
    muted: Mapping[str, tuple[float, str]],
    first_seen: float | None,
) -> list[Finding]:
    """Return findings with the begin of those that are known, and their muting."""
    current: list[Finding] = []
    for finding in found:
        before, (until, by) = known.get(finding.id), muted.get(finding.id, (None, ""))
        since = finding.since
        if since is None:
            since = first_seen if before is None else before.since
        elif before is not None and before.since is not None:  # that of the oldest part of it, which may be over
            since = min(since, before.since)
        current.append(replace(finding, since=since, muted_until=until, muted_by=by))
    return by_harm(current)


def _read(server: Installation) -> tuple[float, list[Finding]]:
    """Return the time of the last refresh and its findings; 0 and none if there is none that this version can read."""
    try:
        fields = cast("Mapping[str, Any]", json.loads(store.read(server.redis) or b""))
        return float(fields["at"]), [from_json(each) for each in fields["findings"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0.0, []
