"""Quarantine."""

from __future__ import annotations

from offsider.web.routing import Route

ROUTES: list[Route] = []
