"""Concurrency limits: so many runs of a class at one time in the whole fleet, and no more.

1. A run takes a slot when it begins and frees it when it ends; a job that finds none is parked (`gate`, `store`).
2. Whoever frees a slot resumes the parked job that has waited longest; a service sees to what is left undone (`slots`).
3. Limits come from the code (`rules`), and from people at run time (`limits`, `web`, the command line); each process
   keeps those that hold in a table (`table`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from offsider.ext.concurrency_limits.examination import check_limits, families
from offsider.ext.concurrency_limits.gate import Gate
from offsider.ext.concurrency_limits.limits import Limit, Limits
from offsider.ext.concurrency_limits.rules import OPTION, Given, Rules, check_option
from offsider.ext.concurrency_limits.slots import Slots, SlotsService
from offsider.ext.concurrency_limits.table import Table
from offsider.ext.concurrency_limits.web import make_tab
from offsider.jobs import registry
from offsider.wiring.nearest import suggest

if TYPE_CHECKING:
    from offsider.wiring.config import Config

logger = logging.getLogger("offsider")

__all__ = ["ConcurrencyLimits", "Limit", "Limits"]


class ConcurrencyLimits:
    """Extension for jobs of which only so many may run at one time, over all processes.

    ::

        config.use(ConcurrencyLimits())

        @job(extra={"concurrency_limit": 3})
        def call_the_bank(account_id: int) -> None: ...

    Args:
        limits: further limits: by the stored name of a class, or by a query as routing rules have them
            (``"urgency=throttled"``), which gives each class that it chooses a limit of its own. A limit is the most
            runs at one time, or a function that answers it and is asked every ten seconds; 0 and None mean no limit,
            a negative one that nothing runs.
        default_shares: a class without a limit may take a share of all threads of the fleet, by its urgency: 35 % of
            them when it is high, 25 % when it is low, 15 % when it is throttled.

    Raises:
        ConfigurationError: a limit is none, or a query cannot be read.
    """

    name = "concurrency_limits"

    def __init__(self, *, limits: Mapping[str, Given] | None = None, default_shares: bool = False) -> None:
        self._rules = Rules(limits or {}, default_shares=default_shares)

    def install(self, config: Config) -> None:
        """The gate outside of all middleware, the service, the option, the tab, and what monitoring is told."""
        config.add_job_option(OPTION, check_option)
        table = Table(config, self._rules)
        slots = Slots(config, table)
        config.server_middleware.gate(Gate(config, table, slots))
        config.add_service(lambda config: SlotsService(slots, config))
        config.on("startup", self._warn_of_unknown)
        config.add_web_tab(make_tab())
        config.add_metrics(families)
        config.add_doctor_check(check_limits)

    def _warn_of_unknown(self) -> None:
        """A class that was renamed would have no limit from then on, and nobody would know."""
        known = registry.names()
        for name in self._rules.unknown(known):
            logger.warning(
                "ConcurrencyLimits(limits=…): no job here is called %r%s; its limit limits nobody",
                name,
                suggest(name, known),
            )
