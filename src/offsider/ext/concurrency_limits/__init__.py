"""Concurrency limits: cap how many jobs of a class run at once across the fleet.

1. A run takes a slot when it begins; if no slot is free, the job is held (`gate`, `store`). The script that writes the
   outcome frees the slot.
2. A service resumes the job that has been held longest, and frees abandoned slots (`slots`).
3. Limits come from code (`rules`) and from operators at run time (`limits`, `web`, the command line). Each process
   keeps the limits in force in a table (`table`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsider.config.installation import Installation
from offsider.core.suggestions import suggest
from offsider.ext.concurrency_limits.doctor import check_limits, families
from offsider.ext.concurrency_limits.gate import Gate
from offsider.ext.concurrency_limits.keys import KEY_OPTIONS, RATE_LIMIT, check_key, check_rate
from offsider.ext.concurrency_limits.limits import Limit, Limits
from offsider.ext.concurrency_limits.rules import OPTION, Given, Rules, check_option
from offsider.ext.concurrency_limits.slots import Slots
from offsider.ext.concurrency_limits.table import Table
from offsider.ext.concurrency_limits.web import make_tab
from offsider.jobs import registry

if TYPE_CHECKING:
    from offsider.config.config import Config

logger = logging.getLogger("offsider")

__all__ = ["ConcurrencyLimits", "Limit", "Limits"]


class ConcurrencyLimits:
    """Extension that limits how many jobs of a class run at once or start in a time, over all processes.

    ::

        config.use(ConcurrencyLimits())

        @job(extra={"concurrency_limit": 3})
        def call_the_bank(account_id: int) -> None: ...

        @job(rate_limit="100/minute", rate_key=lambda account_id: account_id)
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
        """Add the admission, the service, the job option, the web tab, metrics and the doctor check."""
        config.add_job_option(OPTION, check_option)
        config.add_job_option(RATE_LIMIT, check_rate)
        for option in KEY_OPTIONS:
            config.add_job_option(option, check_key)
        here = Installation.of(config)
        table = Table(here, self._rules)
        slots = Slots(here, table)
        config.admissions.add(Gate(here, table, slots))
        config.add_service(slots.service)
        config.on("startup", self._warn_of_unknown)
        config.add_web_tab(make_tab())
        config.add_metrics(families)
        config.add_doctor_check(check_limits)

    def _warn_of_unknown(self) -> None:
        """A renamed class would silently lose its limit."""
        known = registry.names()
        for name in self._rules.unknown(known):
            logger.warning(
                "ConcurrencyLimits(limits=…): unknown job %r%s; its limit has no effect",
                name,
                suggest(name, known),
            )
