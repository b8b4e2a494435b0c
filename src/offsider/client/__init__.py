"""The client, which pushes jobs, and its parts."""

from offsider.client.client import Client
from offsider.client.via import via
from offsider.config.hooks import Prepared

__all__ = ["Client", "Prepared", "via"]
