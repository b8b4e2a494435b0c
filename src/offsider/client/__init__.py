"""Pushing jobs: the client, its asynchronous twin, and what both share."""

from offsider.client.asynchronous import AsyncClient
from offsider.client.prepared import Prepared
from offsider.client.sync import Client
from offsider.client.via import via

__all__ = ["AsyncClient", "Client", "Prepared", "via"]
