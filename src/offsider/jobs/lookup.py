"""``lookup``: the id of a job from a stored string."""

from __future__ import annotations

from typing import Any

from offsider.config.installation import Installation
from offsider.core.job_id import JobId


def lookup(jid: str, server: str = "") -> JobId[Any]:
    """Return the id of a stored job, to read its state and its result, or to cancel it. Sends no command.

    ::

        offsider.lookup(request.args["jid"]).status()

    Args:
        jid: the id, as ``enqueue`` returned it.
        server: the name of the server that has the job; by default the one that this process works for.

    Raises:
        ConfigurationError: there is no server of this name.
    """
    return JobId.at(Installation.of(server=server), jid)
