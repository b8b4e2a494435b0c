"""The former place of the web UI for Django."""

from __future__ import annotations

from offsider.core.former_names import of_module

__getattr__ = of_module(__name__, {name: f"offsider.django.pages.{name}" for name in ("pages", "staff")})
