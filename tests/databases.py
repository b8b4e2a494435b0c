"""Another database of a server stands for another server where only keys matter: nothing is shared between the two."""

from __future__ import annotations

import re


def at_database(url: str, number: int) -> str:
    """The URL of another database of the same server."""
    return re.sub(r"(?<=db=)\d+$|(?<=/)\d+$", str(number), url)
