"""Metrics over statsd, with the names of Sidekiq Pro and Enterprise: ``config.use(Statsd())``."""

from offsider.integrations.statsd.client import StatsdClient, dogstatsd
from offsider.integrations.statsd.extension import Statsd

__all__ = ["Statsd", "StatsdClient", "dogstatsd"]
