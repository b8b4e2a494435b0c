"""Concurrency limits: cap how many jobs of a class run at once, or start in a time, across the fleet.

The extension adds the job options and evaluates them (`rules`). The worker applies them together with the controls that
operators set at run time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsider.core.suggestions import suggest
from offsider.ext.concurrency_limits import rules
from offsider.ext.concurrency_limits.rules import Given, Rules
from offsider.jobs import key, registry

if TYPE_CHECKING:
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

__all__ = ["ConcurrencyLimits"]


class ConcurrencyLimits:
    """Extension that limits how many jobs of a class run at once or start in a time, over all processes.

    ::

        config.use(ConcurrencyLimits())

        @job(extra={"concurrency_limit": 3})
        def call_the_bank(account_id: int) -> None: ...

        @job(rate_limit="100/minute", key=lambda account_id: account_id)
        def fetch_statement(account_id: int) -> None: ...

    Args:
        limits: more limits, by the stored name of a class or by a query in the syntax of routing rules
            (``"urgency=throttled"``). Each class that matches a query gets its own limit. A limit is the maximum of
            concurrent runs, or a function that returns it and is called every ten seconds. 0 and None mean no limit,
            a negative number means that nothing runs.
        default_shares: limit each class without a limit to a share of all threads of the fleet, by its urgency: 35 %
            if high, 25 % if low, 15 % if throttled.

    Raises:
        ConfigurationError: a limit is invalid, or a query cannot be parsed.
    """

    name = "concurrency_limits"

    def __init__(self, *, limits: Mapping[str, Given] | None = None, default_shares: bool = False) -> None:
        self._rules = Rules(limits or {}, default_shares=default_shares)

    def install(self, config: Config) -> None:
        """Add the job options and the limits in code."""
        config.add_job_option(rules.OPTION, rules.number)
        config.add_job_option(rules.RATE_LIMIT, rules.check_rate)
        config.add_job_option(rules.FAIR_SHARE, rules.check_share)
        config.add_job_option(key.OPTION, key.check_key)
        config.limits = self._rules
        config.on("startup", self._warn_of_unknown)

    def _warn_of_unknown(self) -> None:
        """A renamed class would silently lose its limit."""
        known = registry.names()
        for name in self._rules.unknown(known):
            logger.warning(
                "ConcurrencyLimits(limits=…): unknown job %r%s; its limit has no effect",
                name,
                suggest(name, known),
            )
