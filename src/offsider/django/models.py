"""The permissions: ``offsider.view_jobs`` for the pages of the web UI, ``offsider.change_jobs`` for its actions."""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from django.db import models


class Jobs(models.Model):
    """All jobs of the server, as an object of permissions. It has no table."""

    class Meta:
        """Options of the model."""

        managed = False
        default_permissions = ("view", "change")
        verbose_name = "background jobs"
        verbose_name_plural = "background jobs"

    def __str__(self) -> str:
        return "background jobs"
