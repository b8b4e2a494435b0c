"""``offsider alerts test``: post a test message to the webhook of alerts."""

from __future__ import annotations

from offsider.cli.command import CONNECTION, ConnectionOptions, command, group
from offsider.cli.text import say
from offsider.core.errors import ConfigurationError
from offsider.worker.alerts import Webhook


@group(*CONNECTION, alone=False)
def alerts(_connection: ConnectionOptions) -> None:
    """Alerts of findings, which workers post to a webhook."""


@command(within=alerts)
def test(connection: ConnectionOptions) -> int:
    """Post a test message to alerts.url. The exit code is 1 if the webhook does not accept it."""
    settings = connection.load().alerts
    if not settings.url:
        raise ConfigurationError("alerts.url is not set: set it in the configuration file, or OFFSIDER_ALERTS_URL")
    Webhook(settings).test()
    say("The webhook accepted the test message.")
    return 0
