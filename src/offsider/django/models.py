"""The models: permissions for the web UI, and the rows of the outbox.

``offsider.view_jobs`` is for the pages of the web UI, ``offsider.change_jobs`` for its actions.
"""

# pyright: basic, reportMissingTypeStubs=false
# Django has no types.
from __future__ import annotations

from django.db import models

#: Table of the outbox.
TABLE = "offsider_outbox"


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


class OutboxRow(models.Model):
    """A push on its way to Redis: see `offsider.client.relay_source.StoredPush`. Empty without the outbox."""

    id = models.BigAutoField(primary_key=True)
    jid = models.CharField(max_length=255)
    server = models.CharField(max_length=255)
    place = models.TextField()
    score = models.FloatField(null=True)
    payload = models.BinaryField()
    guarded = models.BooleanField()
    created_at = models.FloatField()

    class Meta:
        """Options of the model."""

        db_table = TABLE
        default_permissions = ()
        verbose_name = "row of the outbox"
        verbose_name_plural = "rows of the outbox"

    def __str__(self) -> str:
        return f"JID-{self.jid}"
