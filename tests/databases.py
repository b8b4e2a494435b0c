"""Another database of a server acts as another server where only keys matter: the two share nothing."""

from __future__ import annotations

import re


def at_database(url: str, number: int) -> str:
    """The URL of another database of the same server."""
    return re.sub(r"(?<=db=)\d+$|(?<=/)\d+$", str(number), url)
