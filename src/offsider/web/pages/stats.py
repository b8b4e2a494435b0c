"""The counters for programs, in the form of Sidekiq's ``/stats``."""

from __future__ import annotations
from offsider.web.routing import Route

ROUTES: list[Route] = []
