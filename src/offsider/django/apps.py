"""The app: system checks, and autodiscovery of jobs."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from offsider.django import checks  # noqa: F401  # registers them


class OffsiderConfig(AppConfig):
    """The app ``offsider.django``, with the label ``offsider``."""

    name = "offsider.django"
    label = "offsider"
    verbose_name = "Offsider"
    default_auto_field = "django.db.models.BigAutoField"  # pyright: ignore[reportAssignmentType]

    def ready(self) -> None:
        """Import ``jobs.py`` and ``tasks.py`` of all installed apps."""
        autodiscover_modules("jobs", "tasks")
