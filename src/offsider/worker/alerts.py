"""Alerts: new, changed and ended findings are posted to a webhook. One worker at a time does it for all.

1. The stored findings are compared with those that were posted. Differences are posted in one request each ten
   seconds, a finding at most once a minute.
2. What was posted is stored after the webhook has accepted it. So a failed request is repeated, with a back-off, or by
   another worker. If a worker dies in between, another one posts the same again. While the server refuses writes, as
   with full memory, the worker remembers it.
3. A finding has changed if its severity has, or if its likely cause is known now. Its numbers change all the time.
4. Requests have a thread and a timeout of their own, and follow no redirects.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from offsider.config.addresses import finding_path
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.inspector.finding import Finding, Severity, as_json
from offsider.inspector.findings import stored
from offsider.logs.setup import logger
from offsider.storage import clocks, findings as store
from offsider.worker.leased import LeasedLoop

if TYPE_CHECKING:
    from offsider.config.config import Config
    from offsider.config.settings import AlertsSection
    from offsider.storage.redis import Redis

SECONDS = 10.0
#: A finding is posted at most once in this time.
MIN_SECONDS = 60.0
TIMEOUT_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 300.0
#: Findings of one request; the others are in the next one.
MAX_POSTED = 50
NEW, CHANGED, ENDED = "new", "changed", "ended"
_SYMBOLS = {Severity.ERROR: ":red_circle:", Severity.WARN: ":large_yellow_circle:"}


class NotPosted(OffsiderError):
    """The webhook did not accept a request."""


@dataclass(frozen=True)
class Alert:
    """One message about a finding.

    Attributes:
        status: ``new``, ``changed`` or ``ended``.
        finding: the finding; of an ended one, only its id, kind and description are known.
    """

    status: str
    finding: Finding


@dataclass(frozen=True)
class Posted:
    """What was posted about a finding.

    Attributes:
        name, subject, kind, what: of the finding.
        state: severity and likely cause; empty if it has ended.
        at: when, in epoch seconds.
    """

    name: str
    subject: str
    kind: str
    what: str
    state: str
    at: float


class Webhook:
    """Posts to the URL of the section ``alerts``.

    Args:
        settings: the section.
    """

    def __init__(self, settings: AlertsSection) -> None:
        self._settings = settings
        # No handler of redirects, files or FTP: only the configured address gets the request.
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.HTTPDefaultErrorHandler(),
        ):
            self._opener.add_handler(handler)

    def post(self, alerts: Sequence[Alert], server: str) -> None:
        """Post alerts. Raises NotPosted if the webhook does not answer with a status of success in time."""
        self._send({"text": self._text(alerts, server)} if self._settings.slack else self._values(alerts, server))

    def test(self) -> None:
        """Post a message that is no alert. Raises NotPosted."""
        text = "offsider: this is a test of alerts."
        self._send({"text": text} if self._settings.slack else {"source": "offsider", "test": True, "findings": []})

    def _send(self, values: Mapping[str, Any]) -> None:
        headers = {"content-type": "application/json", "user-agent": "offsider"}
        body = json.dumps(values).encode()
        try:
            request = urllib.request.Request(self._settings.url, body, headers)  # noqa: S310  # only http and https
            with self._opener.open(request, timeout=TIMEOUT_SECONDS):
                pass
        except HTTPError as error:
            error.close()
            # The location may contain the URL, which is a secret.
            where = " (redirects are not followed)" if error.headers.get("location") else ""
            raise NotPosted(f"the webhook of alerts.url answered {error.code} {error.reason}{where}") from error
        except (OSError, HTTPException, ValueError) as error:
            # The message of the error may contain the URL, which is a secret.
            reason = getattr(error, "reason", error)
            raise NotPosted(f"the webhook of alerts.url cannot be reached: {type(reason).__name__}") from error

    def _values(self, alerts: Sequence[Alert], server: str) -> dict[str, Any]:
        findings = [{"status": each.status, "link": self._link(each), **as_json(each.finding)} for each in alerts]
        return {"source": "offsider", "server": server, "findings": findings}

    def _text(self, alerts: Sequence[Alert], server: str) -> str:
        """Return the message for Slack, of which ``&``, ``<`` and ``>`` are escaped."""
        return "\n".join(self._line(alert, server) for alert in alerts)

    def _line(self, alert: Alert, server: str) -> str:
        finding, link = alert.finding, self._link(alert)
        symbol = ":white_check_mark: ended" if alert.status == ENDED else _SYMBOLS[finding.severity]
        what = _escaped(finding.what)
        parts = [f"{symbol} *{finding.kind.upper()}* {f'<{link}|{what}>' if link else what} ({_escaped(server)})"]
        return "\n".join((*parts, *(f"    {_escaped(line)}" for line in (*finding.details, finding.cause) if line)))

    def _link(self, alert: Alert) -> str | None:
        base = self._settings.web_url.rstrip("/")
        return f"{base}{finding_path(alert.finding.id)}" if base and alert.status != ENDED else None


class Alerts(LeasedLoop):
    """The service that posts alerts."""

    def __init__(self, config: Config, redis: Redis) -> None:
        self._webhook = Webhook(config.alerts)
        self._failures = 0
        self._retry_at = 0.0
        self._unstored: dict[str, Posted] = {}
        super().__init__("alerts", "alerts", SECONDS, config, redis)

    def work(self) -> None:
        """Post what is new, unless the webhook has just failed."""
        if time.monotonic() < self._retry_at:
            return
        server = Installation.of(self._config)
        now, _ = clocks.look(self._redis)
        posted = _posted(self._redis) | self._unstored
        alerts = due_alerts(stored(server), posted, now)[:MAX_POSTED]
        if alerts:
            try:
                self._webhook.post(alerts, server.name)
            except NotPosted as error:
                self._failed(error)
                return
            self._unstored |= {each.finding.id: _noted(each, now) for each in alerts}
        if self._unstored:
            store.note_posted(self._redis, {name: json.dumps(asdict(each)) for name, each in self._unstored.items()})
            self._unstored.clear()
        if self._failures:
            self._failures = 0
            logger.info("alerts are posted again")
        old = [name for name, each in posted.items() if not each.state and now - each.at >= MIN_SECONDS]
        store.forget_posted(self._redis, old)

    def _failed(self, error: NotPosted) -> None:
        if not self._failures:
            logger.warning("%s; the alerts are posted later", error)
        self._failures += 1
        # Until then it keeps the lease: other workers would not wait.
        self._retry_at = time.monotonic() + min(MAX_BACKOFF_SECONDS, SECONDS * 2 ** min(self._failures - 1, 10))


def due_alerts(findings: Sequence[Finding], posted: Mapping[str, Posted], now: float) -> list[Alert]:
    """Return the alerts that may be posted now. Muted findings cause none."""
    current = {each.id: each for each in findings}
    alerts = [
        Alert(NEW if before is None or not before.state else CHANGED, each)
        for each in findings
        for before in (posted.get(each.id),)
        if each.muted_until is None and _may_post(before, now) and (before is None or before.state != _state(each))
    ]
    alerts += [
        Alert(ENDED, _ended(each))
        for name, each in posted.items()
        if name not in current and each.state and _may_post(each, now)
    ]
    return alerts


def _may_post(before: Posted | None, now: float) -> bool:
    return before is None or now - before.at >= MIN_SECONDS


def _state(finding: Finding) -> str:
    cause, is_likely, _ = finding.cause.partition(" is the likely cause")
    return f"{finding.severity.name} {cause}" if is_likely else finding.severity.name


def _ended(posted: Posted) -> Finding:
    return Finding(
        posted.name, posted.what, Severity.OK, cause="", actions=(), kind=posted.kind, subject=posted.subject
    )


def _noted(alert: Alert, now: float) -> Posted:
    finding = alert.finding
    state = "" if alert.status == ENDED else _state(finding)
    return Posted(finding.name, finding.subject, finding.kind, finding.what, state, now)


def _posted(redis: Redis) -> dict[str, Posted]:
    found: dict[str, Posted] = {}
    for name, fields in store.posted(redis).items():
        with suppress(TypeError):  # written by another version: it is posted again
            found[name] = Posted(**fields)
    return found


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
