"""Another database of a server acts as another server where only keys matter: the two share nothing."""

from __future__ import annotations

import re

from tests.tagged import skip_on_cluster


def at_database(url: str, number: int) -> str:
    """The URL of another database of the same server. Skips the test on a Cluster."""
    skip_on_cluster(url, "it has only one database")
    return re.sub(r"(?<=db=)\d+$|(?<=/)\d+$", str(number), url)
