"""Clients that push jobs, blocking and asynchronous, and their common parts."""

from offsider.client.asynchronous import AsyncClient
from offsider.client.prepared import Prepared
from offsider.client.sync import Client
from offsider.client.via import via

__all__ = ["AsyncClient", "Client", "Prepared", "via"]
