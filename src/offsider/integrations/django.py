"""The former place of the Django middleware."""

from __future__ import annotations

from offsider.core.former_names import of_module

__getattr__ = of_module(__name__, {"CallerId": "offsider.django.middleware.CallerId"})
